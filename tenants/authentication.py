"""Authenticates the Authorization header; a key seen lately costs no database query (DPP-11)."""

from typing import Any, Final, NoReturn
from uuid import UUID

import structlog
from django.db.models import Exists, OuterRef, QuerySet, Subquery
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from dpp_project import clock
from dpp_project.http.problems import Problem
from dpp_project.http.refused_by_server import PROVEN
from dpp_project.reasons import ReasonCode
from dpp_project.stores.postgres import DATABASE_AWAY
from tenants import keys, metrics
from tenants.failures import FailureBuffer
from tenants.last_used import LastUsed
from tenants.models import ApiKey, SpendCap, Tenant
from tenants.principals import Finding, Principal, PrincipalCache, RefusedKey
from tenants.scopes import OPERATOR_TENANT_ID, Scope

log = structlog.get_logger("dpp.tenants")

CHALLENGE: Final = 'Bearer realm="dpp"'
RETRY_AFTER_SECONDS: Final = 2
# Unknown, revoked, expired and suspended get the same answer: a thief must not learn a key's state from it.
_NO_VALID_KEY: Final = "The API key is not valid."
_DETAILS: Final = {
    RefusedKey.MISSING: "No key was sent: the Authorization header is missing. Send `Authorization: Bearer dpp_...`.",
    RefusedKey.MALFORMED: "The Authorization header holds no API key. Send `Authorization: Bearer dpp_...`.",
}

memory = PrincipalCache()
last_used = LastUsed()
failures = FailureBuffer()


class ApiKeyAuthentication(BaseAuthentication):
    """DRF's hook. A request without the header is not refused here; permissions refuse it where a key is needed."""

    def authenticate(self, request: Request) -> tuple[Principal, Principal] | None:
        header = request.headers.get("Authorization")
        if header is None:
            return None
        principal = self._principal(request, header)
        request._request.dpp_principal = principal  # type: ignore[attr-defined]  # noqa: SLF001  for the request line
        request.META[PROVEN] = principal.tenant_id
        return principal, principal

    def _principal(self, request: Request, header: str) -> Principal:
        """What fails of ours is noted; a refused key is none of it."""
        try:
            return authenticate_header(header)
        except Problem as problem:
            if problem.status >= 500 and problem.__context__ is not None:
                _note_failure(request, problem.__context__, problem.status)
            raise
        except Exception as error:  # noted, and raised as it was
            _note_failure(request, error, 500)
            raise

    def authenticate_header(self, request: Request) -> str:
        del request
        return CHALLENGE


def _note_failure(request: Request, error: BaseException, http_status: int) -> None:
    failures.note(error, http_status=http_status, path=request.path, method=request.method or "")


def authenticate_header(header: str) -> Principal:
    """Return the principal of `Bearer <key>`, or raise a Problem: 401, or 503 if the database is needed and away."""
    presented = keys.presented_in(header)
    if presented is None:
        refuse_key(RefusedKey.MALFORMED)
    prefix, plaintext = presented
    key_hash = keys.hash_of(plaintext)
    finding = memory.find(key_hash)
    if finding is None:
        finding = _look_up(prefix, key_hash)
    if isinstance(finding, RefusedKey):
        refuse_key(finding)
    now = clock.now()
    if finding.has_expired(now):
        refuse_key(RefusedKey.EXPIRED)
    last_used.note(finding.key_id, now)
    return finding


def refuse_key(kind: RefusedKey) -> NoReturn:
    metrics.AUTH_FAILURES.labels(kind.value).inc()
    raise Problem(ReasonCode.AUTH_INVALID, _DETAILS.get(kind, _NO_VALID_KEY), headers={"WWW-Authenticate": CHALLENGE})


def _look_up(prefix: str, key_hash: str) -> Finding:
    started = memory.started()
    metrics.AUTH_LOOKUPS.inc()
    try:
        row = _keys_to_authenticate().filter(prefix=prefix).first()
    except DATABASE_AWAY as error:
        log.warning("key not looked up, the database does not answer", prefix=prefix, exc_info=error)
        raise Problem(
            ReasonCode.SERVICE_UNAVAILABLE,
            "Keys cannot be checked at the moment.",
            headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
        ) from None
    finding = _judge(row, key_hash)
    memory.keep(key_hash, finding, started=started)
    return finding


def principal_of_key(key_id: UUID) -> Finding:
    """The principal of a key that no request presents, read anew each time: a session of its owner's pages, a rule of
    automations.
    """
    row = _keys_to_authenticate().filter(key_id=key_id).first()
    finding = RefusedKey.UNKNOWN if row is None else _standing(row)
    if isinstance(finding, Principal) and finding.has_expired(clock.now()):
        return RefusedKey.EXPIRED
    return finding


def _keys_to_authenticate() -> QuerySet[ApiKey]:
    stopped = Exists(Tenant.objects.filter(tenant_id=OPERATOR_TENANT_ID, submits_enabled=False))
    caps = SpendCap.objects.filter(tenant_id=OuterRef("tenant_id")).values("revision")
    return ApiKey.objects.select_related("tenant").annotate(
        all_submits_stopped=stopped,
        tenant_caps_revision=Subquery(caps.filter(lineage_id__isnull=True)),
        lineage_caps_revision=Subquery(caps.filter(lineage_id=OuterRef("lineage_id"))),
    )


def _judge(row: Any, key_hash: str) -> Finding:
    if not keys.api_key_matches(key_hash, None if row is None else row.key_hash):
        return RefusedKey.UNKNOWN if row is None else RefusedKey.WRONG_SECRET
    assert row is not None  # noqa: S101  no row matches nothing
    return _standing(row)


def _standing(row: Any) -> Finding:
    if row.status != ApiKey.Status.ACTIVE:
        return RefusedKey.REVOKED
    if row.tenant.status != Tenant.Status.ACTIVE:
        return RefusedKey.SUSPENDED
    return Principal(
        tenant_id=row.tenant_id,
        key_id=row.key_id,
        prefix=row.prefix,
        scopes=frozenset(scope for scope in Scope if scope in row.scopes),
        expires_at=row.expires_at,
        poll_rate_per_minute=row.tenant.poll_rate_per_minute,
        submit_rate_per_minute=row.tenant.submit_rate_per_minute,
        submits_enabled=row.tenant.submits_enabled and not row.all_submits_stopped,
        lineage_id=row.lineage_id,
        tenant_caps_revision=row.tenant_caps_revision or 0,
        lineage_caps_revision=row.lineage_caps_revision or 0,
        share_weight=row.tenant.share_weight,
    )
