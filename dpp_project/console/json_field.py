"""A JSON document in a form of the console."""

from typing import Any

from django import forms


class JsonDocumentField(forms.JSONField):
    """Empty before anything is typed, not `null`; and `{}` is a document: every field of it may have a default."""

    empty_values = (None, "")

    def prepare_value(self, value: Any) -> Any:
        return "" if value is None else super().prepare_value(value)
