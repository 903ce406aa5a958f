"""Which form a body and an answer take: DRF's rules, but that a body is of one type, and the usual request is quick."""

from collections.abc import Iterable
from typing import Any

from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request


class PlainFirst(DefaultContentNegotiation):
    """Who asks for nothing in particular, or for the address's first form, need not be compared with every form."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser | None:
        """A type with a star in it is a wish, not a type; DRF would take any."""
        given = request.content_type.partition(";")[0].strip().lower()
        return next((parser for parser in parsers if parser.media_type == given), None)

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        first = next(iter(renderers))
        if request.META.get("HTTP_ACCEPT", "*/*") in ("*/*", first.media_type):
            return first, str(first.media_type)
        found: Any = super().select_renderer(request, renderers, format_suffix)
        chosen: tuple[BaseRenderer, str] = found
        return chosen
