"""Why a page is not there, or not whole, beside what outbound/refusals.py says; docs/packs/url.md explains each."""

from enum import StrEnum


class Discarded(StrEnum):
    """In `discard_log`, as outbound's Failure is; its Blocked is in `blocked_log`."""

    TOO_MANY_REDIRECTS = "TOO_MANY_REDIRECTS"
    CONTENT_TOO_LARGE = "CONTENT_TOO_LARGE"
    UNSUPPORTED_ENCODING = "UNSUPPORTED_ENCODING"
    BAD_ENCODING = "BAD_ENCODING"
    DUPLICATE_URL = "DUPLICATE_URL"
    MAX_URLS = "MAX_URLS"
    HOLD_EXHAUSTED = "HOLD_EXHAUSTED"
    TIMEBOX = "TIMEBOX"
