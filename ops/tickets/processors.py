"""What a ticket of each type does. Every effect is repeatable by the ticket's own id.

A processor may die between its effect and `transitions.finish_ticket`; the next cycle resumes the ticket and acts
again:

    BUDGET_TOPUP, BUDGET_ADJUST   the ledger takes the reference `ticket-<id>` once
    RUN_CANCEL                    the run's history names `ticket:<id>` as who claimed it
    DISPUTE_REFUND                the run's dispute names `ticket:<id>` as who refunded it
    DLQ_REDRIVE                   the letter names `ticket:<id>`; a second message does no more than the first, and a
                                  run that a first one has started needs none
    KEY_REVOKE, BUDGET_REBUILD    twice is as good as once
    EXECUTION_*                   the same, unless a later ticket of that tenant was taken up: then it stands back
"""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from django.db import transaction
from pydantic import ValidationError

from budget import entries, repairs, solo_limit
from budget.models import LedgerEntry
from budget.rebuild.rebuild import Busy
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from ops.tickets import payloads
from ops.tickets.models import Ticket
from ops.tickets.payloads import TicketPayload
from ops.tickets.states import RequestType, TicketStatus
from reaper import redrive
from reaper.models import DeadLetter
from runs.cancel import cancellation
from runs.models import Run, RunDispute, RunHistory
from runs.operators import disputes
from tenants import services as tenants
from tenants.models import ApiKey, Tenant


@dataclass(frozen=True, slots=True)
class TicketDone:
    message: str
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TicketRefused:
    """It cannot be done, now or later; nothing was changed."""

    message: str


@dataclass(frozen=True, slots=True)
class Later:
    """Nothing is known to be wrong with it; it is tried again."""

    message: str


Processed = TicketDone | TicketRefused | Later


@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    request_type: RequestType
    summary: str
    payload: type[TicketPayload]
    act: Callable[[Ticket], Processed]
    stands: Callable[[Ticket], bool] | None
    """Whether its effect is there now, by whichever cause. None: it leaves no trace to look for."""
    example: Mapping[str, Any]
    dangerous: bool = False
    """It always waits for a second operator: it puts the ledger right, or closes money for a while."""
    moves_micros: Callable[[TicketPayload], int] | None = None
    """What it would move; above the solo limit it waits for a second operator, too."""

    def needs_approval(self, payload: TicketPayload) -> bool:
        moves = 0 if self.moves_micros is None else self.moves_micros(payload)
        return self.dangerous or solo_limit.is_above(moves)

    def waits(self) -> str:
        """When it waits for a second operator, for documents."""
        if self.dangerous:
            return "Waits for a second operator's approval."
        return (
            "" if self.moves_micros is None else "Above DPP_SOLO_LIMIT_USD it waits for a second operator's approval."
        )


def process_ticket(ticket: Ticket) -> Processed:
    return processor_of(RequestType(ticket.request_type)).act(ticket)


def effect_of(ticket: Ticket) -> dict[str, str]:
    """For a ticket that ends undecided: what an operator must know before asking again."""
    stands = processor_of(RequestType(ticket.request_type)).stands
    try:
        return {"effect": "UNKNOWN" if stands is None else "STANDS" if stands(ticket) else "ABSENT"}
    except ValidationError:  # asked for when its payload had another form
        return {"effect": "UNKNOWN"}


def processor_of(request_type: RequestType) -> Processor:
    return PROCESSORS[request_type]


def actor_of(ticket: Ticket) -> str:
    return f"ticket:{ticket.pk}"


def reference_of(ticket: Ticket) -> str:
    return f"{entries.TICKET_REFERENCE}{ticket.pk}"


_Payload = TypeVar("_Payload", bound=TicketPayload)


def _payload_of_ticket(ticket: Ticket, model: type[_Payload]) -> _Payload:
    return model.model_validate(ticket.payload)


def _enable(ticket: Ticket) -> Processed:
    return _switch_submits(ticket, enabled=True)


def _disable(ticket: Ticket) -> Processed:
    return _switch_submits(ticket, enabled=False)


def _switch_submits(ticket: Ticket, *, enabled: bool) -> Processed:
    tenant_id = _payload_of_ticket(ticket, payloads.OfTenant).tenant_id
    with transaction.atomic():
        # One switch of a tenant at a time: the second sees the first's ticket, in progress or done.
        Tenant.objects.select_for_update().filter(tenant_id=tenant_id).first()
        later = Ticket.objects.filter(
            request_type__in=[RequestType.EXECUTION_ENABLE, RequestType.EXECUTION_DISABLE],
            payload__tenant_id=tenant_id,
            status__in=[TicketStatus.IN_PROGRESS, TicketStatus.DONE],
            created_at__gt=ticket.created_at,
        ).first()
        if later is not None and later.status == TicketStatus.DONE:
            return TicketRefused(f"a later ticket was done before it: {later.pk}")
        if later is not None:
            return Later(f"a later ticket is at work: {later.pk}")
        answer = tenants.enable_submits(tenant_id=tenant_id, enabled=enabled, actor=actor_of(ticket))
    if not isinstance(answer, Tenant):
        return TicketRefused(answer.detail)
    return TicketDone(f"submits of {tenant_id} are {'on' if enabled else 'off'}", {"submits_enabled": enabled})


def _is_on(ticket: Ticket) -> bool:
    return _submits_are(ticket, enabled=True)


def _is_off(ticket: Ticket) -> bool:
    return _submits_are(ticket, enabled=False)


def _submits_are(ticket: Ticket, *, enabled: bool) -> bool:
    tenant_id = _payload_of_ticket(ticket, payloads.OfTenant).tenant_id
    return Tenant.objects.filter(tenant_id=tenant_id, submits_enabled=enabled).exists()


def _top_up(ticket: Ticket) -> Processed:
    asked = _payload_of_ticket(ticket, payloads.TopUpPayload)
    return _entered(
        entries.top_up(
            tenant_id=asked.tenant_id,
            amount_micros=payloads.signed_micros(asked.amount_usd),
            reference=reference_of(ticket),
            reason=asked.reason,
            actor=actor_of(ticket),
            of_ticket=True,
            approved_by=ticket.approved_by,
        )
    )


def _adjust(ticket: Ticket) -> Processed:
    asked = _payload_of_ticket(ticket, payloads.Adjust)
    return _entered(
        entries.adjust_balance(
            tenant_id=asked.tenant_id,
            amount_micros=payloads.signed_micros(asked.amount_usd),
            reference=reference_of(ticket),
            reason=asked.reason,
            actor=actor_of(ticket),
            of_ticket=True,
            approved_by=ticket.approved_by,
        )
    )


def _entered(answer: entries.Entered | Refusal) -> Processed:
    if isinstance(answer, Refusal):
        return TicketRefused(f"{answer.field}: {answer.detail}")
    entry = answer.entry
    return TicketDone(
        f"{entry.kind} of {entry.amount_usd_micros} micros stands in the ledger of {entry.tenant_id}",
        {"entry_id": str(entry.pk), "amount_usd_micros": entry.amount_usd_micros},
    )


def _is_entered(ticket: Ticket) -> bool:
    return LedgerEntry.objects.filter(
        tenant_id=ticket.payload.get("tenant_id"), reference=reference_of(ticket)
    ).exists()


def _rebuild(ticket: Ticket) -> Processed:
    tenant_id = _payload_of_ticket(ticket, payloads.Rebuild).tenant_id
    if tenant_id is not None and not Tenant.objects.filter(tenant_id=tenant_id).exists():
        return TicketRefused(f"there is no tenant {tenant_id}")
    made = repairs.rebuild_by_hand(tenant_id, actor=actor_of(ticket), approved_by=ticket.approved_by)
    if isinstance(made, Refusal):
        return TicketRefused(made.detail)
    if isinstance(made, Busy):
        return Later("another rebuild is at work, or all money waits for one")
    return TicketDone(
        f"{made.tenants} tenants were rebuilt from the ledger",
        {"tenants": made.tenants, "holds": made.holds, "balance_usd_micros": made.balance_micros},
    )


def _revoke_key(ticket: Ticket) -> Processed:
    found = tenants.find_key(_payload_of_ticket(ticket, payloads.RevokeKey).key)
    if not isinstance(found, ApiKey):
        return TicketRefused(found.detail)
    answer = tenants.revoke_key(key_id=found.key_id, actor=actor_of(ticket))
    if not isinstance(answer, ApiKey):
        return TicketRefused(answer.detail)
    return TicketDone(f"{answer} of {answer.tenant_id} is revoked", {"key_id": str(answer.key_id)})


def _is_revoked(ticket: Ticket) -> bool:
    found = tenants.find_key(_payload_of_ticket(ticket, payloads.RevokeKey).key)
    return isinstance(found, ApiKey) and found.status == ApiKey.Status.REVOKED


def _redrive(ticket: Ticket) -> Processed:
    number = _payload_of_ticket(ticket, payloads.Redrive).letter
    letter = DeadLetter.objects.filter(pk=number).first()
    if letter is None:
        return TicketRefused(f"there is no dead letter {number}")
    if letter.redriven_by != actor_of(ticket):
        refusal = redrive.redrive(letter, actor=actor_of(ticket))
        if refusal is not None and refusal.reason is ReasonCode.SERVICE_UNAVAILABLE:
            return Later(refusal.detail)
        if refusal is not None and refusal.reason is ReasonCode.CONFLICT and ticket.attempts:
            return TicketDone(
                f"an earlier try has sent it, or no recovery needed: {refusal.detail}", {"letter": number}
            )
        if refusal is not None:
            return TicketRefused(refusal.detail)
    return TicketDone(f"dead letter {number} was sent again", {"letter": number})


def _is_redriven(ticket: Ticket) -> bool:
    return DeadLetter.objects.filter(
        pk=_payload_of_ticket(ticket, payloads.Redrive).letter, redriven_by=actor_of(ticket)
    ).exists()


def _cancel_run_of_ticket(ticket: Ticket) -> Processed:
    asked = _payload_of_ticket(ticket, payloads.CancelRun)
    run_id = uuid.UUID(asked.run_id)
    if not _is_canceled(ticket):
        answer = cancellation.cancel_run(
            tenant_id=asked.tenant_id,
            run_id=run_id,
            actor=actor_of(ticket),
            reason=ReasonCode.CANCELED_BY_OPERATOR,
        )
        if answer is None:
            return TicketRefused(f"{asked.tenant_id} has no run {run_id}")
        if isinstance(answer, cancellation.NotCancelable) and not _is_canceled(ticket):
            return TicketRefused(f"the run is {answer.run.status} and cannot be canceled any more")
    return TicketDone(f"run {run_id} was canceled", {"run_id": str(run_id)})


def _is_canceled(ticket: Ticket) -> bool:
    run_id = _payload_of_ticket(ticket, payloads.CancelRun).run_id
    return RunHistory.objects.filter(run_id=run_id, actor=actor_of(ticket)).exists()


def _top_up_micros(payload: TicketPayload) -> int:
    assert isinstance(payload, payloads.TopUpPayload)  # noqa: S101  its own processor asks
    return payloads.signed_micros(payload.amount_usd)


def _refund(ticket: Ticket) -> Processed:
    asked = _payload_of_ticket(ticket, payloads.RefundDispute)
    run_id = uuid.UUID(asked.run_id)
    if not _is_refunded(ticket):
        answer = disputes.refund_dispute(
            run_id=run_id, reason=asked.reason, actor=actor_of(ticket), approved_by=ticket.approved_by
        )
        if isinstance(answer, Refusal) and not _is_refunded(ticket):
            return TicketRefused(answer.detail)
    return TicketDone(f"the charge of run {run_id} went back", {"run_id": str(run_id)})


def _is_refunded(ticket: Ticket) -> bool:
    run_id = _payload_of_ticket(ticket, payloads.RefundDispute).run_id
    return RunDispute.objects.filter(run_id=run_id, step=RunDispute.Step.REFUNDED, actor=actor_of(ticket)).exists()


def _charge_micros(payload: TicketPayload) -> int:
    """A charge never changes. What is no run yet is refused when it is processed."""
    assert isinstance(payload, payloads.RefundDispute)  # noqa: S101  its own processor asks
    charged = Run.objects.filter(run_id=payload.run_id).values_list("actual_cost_usd_micros", flat=True).first()
    return charged or 0


_OF_DEMO: Final = {"tenant_id": "t_demo"}

PROCESSORS: Final[Mapping[RequestType, Processor]] = {
    one.request_type: one
    for one in (
        Processor(
            request_type=RequestType.EXECUTION_ENABLE,
            summary="A tenant's submits are taken again.",
            payload=payloads.OfTenant,
            act=_enable,
            stands=_is_on,
            example=_OF_DEMO,
        ),
        Processor(
            request_type=RequestType.EXECUTION_DISABLE,
            summary="A tenant's submits are refused as EXECUTION_DISABLED; reads and running work go on.",
            payload=payloads.OfTenant,
            act=_disable,
            stands=_is_off,
            example=_OF_DEMO,
        ),
        Processor(
            request_type=RequestType.BUDGET_TOPUP,
            summary="Money comes in.",
            payload=payloads.TopUpPayload,
            act=_top_up,
            moves_micros=_top_up_micros,
            stands=_is_entered,
            example=_OF_DEMO | {"amount_usd": "25.0000", "reason": "Invoice 2026-031"},
        ),
        Processor(
            request_type=RequestType.BUDGET_ADJUST,
            summary="The ledger is put right, either way.",
            payload=payloads.Adjust,
            act=_adjust,
            stands=_is_entered,
            example=_OF_DEMO | {"amount_usd": "-1.0000", "reason": "Entered twice"},
            dangerous=True,
        ),
        Processor(
            request_type=RequestType.BUDGET_REBUILD,
            summary="Balances and holds are made anew from the ledger; money waits meanwhile.",
            payload=payloads.Rebuild,
            act=_rebuild,
            stands=None,
            example=_OF_DEMO,
            dangerous=True,
        ),
        Processor(
            request_type=RequestType.KEY_REVOKE,
            summary="A key ends at once.",
            payload=payloads.RevokeKey,
            act=_revoke_key,
            stands=_is_revoked,
            example={"key": "dpp_a1b2c3d4"},
        ),
        Processor(
            request_type=RequestType.DLQ_REDRIVE,
            summary="A dead letter is sent once more.",
            payload=payloads.Redrive,
            act=_redrive,
            stands=_is_redriven,
            example={"letter": 7},
        ),
        Processor(
            request_type=RequestType.RUN_CANCEL,
            summary="A run is ended as its owner would end it.",
            payload=payloads.CancelRun,
            act=_cancel_run_of_ticket,
            stands=_is_canceled,
            example=_OF_DEMO | {"run_id": "0199c0de-0000-7000-8000-000000000001"},
        ),
        Processor(
            request_type=RequestType.DISPUTE_REFUND,
            summary="The whole charge of a disputed run goes back.",
            payload=payloads.RefundDispute,
            act=_refund,
            stands=_is_refunded,
            moves_micros=_charge_micros,
            example={"run_id": "0199c0de-0000-7000-8000-000000000001", "reason": "The result was wrong"},
        ),
    )
}
