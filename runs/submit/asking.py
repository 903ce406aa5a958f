"""What a submit asks for and by whose key: the body of a request, or of an automation's attempt, and its principal."""

from budget.redis.windows import LeastRevisions
from runs.packs import registry
from runs.submissions import Submission
from runs.submit.request_body import RunCreateRequest
from runs.submit.request_hash import Payload
from tenants.principals import Principal
from tenants.scopes import Scope


def submission_of(
    body: RunCreateRequest, payload: Payload, *, principal: Principal, idempotency_key: str, trace_id: str | None
) -> Submission:
    return Submission(
        tenant_id=principal.tenant_id,
        idempotency_key=idempotency_key,
        pack_type=body.pack_type,
        profile_version=body.meta.profile_version,
        price_version=registry.pack_named(body.pack_type).price_version,
        payload_hash=payload.sha256,
        reserved_micros=body.reservation.max_cost_micros,
        inputs=payload.inputs,
        artifacts=payload.artifacts,
        timebox_sec=body.reservation.timebox_sec,
        min_reliability_score=body.reservation.min_reliability_score,
        inline=bool(body.options.inline),
        priority=body.options.priority,
        concurrency_key=body.options.concurrency_key,
        metadata=body.metadata,
        trace_id=trace_id,
        lineage_id=principal.lineage_id,
        least=LeastRevisions(principal.tenant_caps_revision, principal.lineage_caps_revision),
        may_use_workspaces=Scope.WORKSPACES_WRITE in principal.scopes,
        may_start=principal.submits_enabled,
    )


def capped_scopes(principal: Principal) -> list[str | None]:
    """The scopes whose counters a submit looks at before it makes a row; None is the tenant's."""
    scopes: list[str | None] = [None] if principal.tenant_caps_revision else []
    return scopes + ([str(principal.lineage_id)] if principal.lineage_caps_revision else [])
