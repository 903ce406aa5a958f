"""Which addresses take a body, how long one may be, and who may send one. Pure."""

from dataclasses import dataclass
from typing import Any, Final

from dpp_project.http.parsers import MAX_BODY_BYTES, MAX_REPORT_BYTES
from tenants import keys

METHODS_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
MAX_FORM_BYTES: Final = 2_621_440
"""Of a console form, files included: Django's own limit for one kept in memory, so that nothing is put on a disk."""
MAX_ACCOUNT_FORM_BYTES: Final = 65_536
"""Of a form of the account pages, which are open to strangers up to the one that asks for a key."""


@dataclass(frozen=True)
class BodyRule:
    """`max_bytes` 0: the address takes no body, and Django gets an empty one."""

    max_bytes: int
    needs_key: bool = False


NO_BODY: Final = BodyRule(0)
_BY_PREFIX: Final = (
    ("/v1/", BodyRule(MAX_BODY_BYTES, needs_key=True)),
    ("/api/auth-errors", BodyRule(MAX_REPORT_BYTES, needs_key=True)),
    ("/api/automations/hooks/", BodyRule(MAX_BODY_BYTES)),  # proven by a signature over the body itself
    ("/api/", BodyRule(MAX_BODY_BYTES, needs_key=True)),
    ("/mcp", BodyRule(MAX_BODY_BYTES, needs_key=True)),
    ("/admin/", BodyRule(MAX_FORM_BYTES)),
    ("/account/", BodyRule(MAX_ACCOUNT_FORM_BYTES)),
)


def body_rule_for(environ: dict[str, Any]) -> BodyRule:
    """What may be read of this request's body. Without a well-formed key nothing is: the answer will be a 401."""
    if environ["REQUEST_METHOD"] not in METHODS_WITH_BODY:
        return NO_BODY
    path: str = environ["PATH_INFO"]
    rule = next((rule for prefix, rule in _BY_PREFIX if path.startswith(prefix)), NO_BODY)
    if rule.needs_key and keys.presented_in(environ.get("HTTP_AUTHORIZATION", "")) is None:
        return NO_BODY
    return rule
