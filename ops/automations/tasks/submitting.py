"""One attempt's submit: what `POST /v1/runs` does, by the rule's own key, in this process.

The key's row says which tenant asks, whose caps count, and whether the tenant may start runs; it is read each time, so
that a revoked key, a suspended tenant and a stopped platform stop a rule at once. The tenant's bucket for submits gives
the token, as for any request of the tenant's.
"""

import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import structlog
from redis import RedisError
from redis.client import Pipeline

from budget.money import format_usd
from budget.redis.view import SeenBalance
from dpp_project.http.problems import Problem
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from ops.automations.models import AutomationAttempt, AutomationTask
from runs.reads import for_tenant
from runs.states import MoneyState
from runs.submissions import Submission
from runs.submit import asking, request_body, request_hash, submission
from runs.submit.answer import SubmitAnswer
from tenants import authentication, rate_limits
from tenants.models import Tenant
from tenants.principals import Principal, RefusedKey
from tenants.rate_limits import Bucket

CLOCKS_DIFFER: Final = timedelta(hours=1)
"""A clock of the database that was set back has dated the run before its attempt."""

log = structlog.get_logger("dpp.automations")


class _BucketEmpty(Exception):  # noqa: N818  an outcome
    def __init__(self, seconds: int) -> None:
        super().__init__()
        self.seconds = seconds


class _Token:
    """The submit's token, taken along with its first trip to Redis."""

    def __init__(self, principal: Principal) -> None:
        self._principal = principal

    def queue(self, pipeline: Pipeline) -> None:
        rate_limits.queue_check(pipeline, self._principal, Bucket.SUBMIT)

    def passed(self, answer: Any, seen: SeenBalance) -> None:
        del seen
        limit = rate_limits.limit_of(self._principal, Bucket.SUBMIT)
        decision = rate_limits.rate_limit_decision(answer, bucket=Bucket.SUBMIT, limit=limit)
        if not decision.allowed:
            raise _BucketEmpty(decision.reset_seconds)

    def missed(self, error: RedisError) -> None:
        log.warning("attempt unmetered, and not held", exc_info=error)

    def take(self) -> object:
        """An attempt has a key, and so a first trip: there is none of the token's own."""
        raise NotImplementedError


def submit_run_of_attempt(attempt: AutomationAttempt) -> SubmitAnswer | Refusal:
    """Key: `{task}:{attempt}`, under which the same request is answered with the same run."""
    task = attempt.task
    principal = _principal(task)
    if isinstance(principal, Refusal):
        return principal
    key = f"{task.pk}:{attempt.attempt}"
    try:
        asked = _submission_of_task(task, principal, key=key, reserved_micros=attempt.reserved_usd_micros)
        return submission.submit_run(
            tenant_id=task.tenant_id,
            idempotency_key=key,
            read=lambda: asked,
            entry=_Token(principal),
            capped=asking.capped_scopes(principal),
            share_weight=principal.share_weight,
        )
    except Problem as problem:
        return refusal_of(problem)
    except _BucketEmpty as empty:
        return Refusal(ReasonCode.RATE_LIMITED, "the tenant's submits", retry_after_seconds=min(30, empty.seconds))


@dataclass(frozen=True, slots=True)
class NotHeldYet:
    """The attempt's row stands without its money: its submit may hold it yet, or has died and is swept."""


def standing_run(attempt: AutomationAttempt) -> uuid.UUID | NotHeldYet | None:
    """The run that was bought before, by a process that died before it could note it, or that is slow.

    A run of another key of the tenant's, under the same name, is none of ours: it may cost more than the attempt may.
    """
    run = for_tenant.of_key(attempt.task.tenant_id, f"{attempt.task_id}:{attempt.attempt}")
    if run is None or run.lineage_id != attempt.task.rule.lineage_id:
        return None
    return NotHeldYet() if run.money_state == MoneyState.NONE else run.run_id


def run_without_key(attempt: AutomationAttempt) -> uuid.UUID | None:
    """The attempt's run where it is a tombstone, which has no Idempotency-Key any more: to submit would buy it twice.

    It is known by its trace, which is the task, by the rule's key, and by being no other attempt's.
    """
    task = attempt.task
    others = AutomationAttempt.objects.filter(task_id=task.pk, run_id__isnull=False).values_list("run_id", flat=True)
    found = for_tenant.tombstones_of_trace(
        task.tenant_id, str(task.pk), lineage_id=task.rule.lineage_id, since=attempt.began_at - CLOCKS_DIFFER
    )
    return next((run_id for run_id in found if run_id not in set(others)), None)


def _submission_of_task(task: AutomationTask, principal: Principal, *, key: str, reserved_micros: int) -> Submission:
    """Raises Problem where the inputs are none of the pack's."""
    body = request_body.read_run_request(
        asked_body(task.pack_type, task.inputs, max_cost_micros=reserved_micros, timebox_sec=task.timebox_sec)
    )
    payload = request_hash.payload_of(body)
    return asking.submission_of(body, payload, principal=principal, idempotency_key=key, trace_id=str(task.pk))


def asked_body(pack_type: str, inputs: Any, *, max_cost_micros: int, timebox_sec: int) -> dict[str, Any]:
    reservation = {"max_cost_usd": format_usd(max_cost_micros), "timebox_sec": timebox_sec}
    return {"pack_type": pack_type, "inputs": inputs, "reservation": reservation}


def refusal_of(problem: Problem) -> Refusal:
    named = "; ".join(f"{error.field}: {error.detail}" for error in problem.errors)
    return Refusal(problem.reason, named or problem.detail, problem.errors[0].field if problem.errors else "")


def _principal(task: AutomationTask) -> Principal | Refusal:
    found = authentication.principal_of_key(task.rule.key_id)
    if found is RefusedKey.EXPIRED:
        return Refusal(ReasonCode.AUTH_INVALID, "the rule's key has expired", "key")
    if isinstance(found, RefusedKey):
        return Refusal(ReasonCode.AUTH_INVALID, "the rule's key is revoked, or its tenant suspended", "key")
    if not Tenant.objects.filter(pk=found.tenant_id, automations_enabled=True).exists():
        return Refusal(ReasonCode.EXECUTION_DISABLED, "automations are not enabled for the tenant", "tenant")
    return found
