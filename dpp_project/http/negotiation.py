"""Which form an answer takes: DRF's rules, with the usual request decided before they begin."""

from collections.abc import Iterable
from typing import Any

from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request


class PlainFirst(DefaultContentNegotiation):
    """Who asks for nothing in particular, or for the address's first form, need not be compared with every form."""

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        first = next(iter(renderers))
        if request.META.get("HTTP_ACCEPT", "*/*") in ("*/*", first.media_type):
            return first, str(first.media_type)
        found: Any = super().select_renderer(request, renderers, format_suffix)
        chosen: tuple[BaseRenderer, str] = found
        return chosen
