"""Every two edges that compete for a row, in both orders, on two connections: one wins, the other leaves no trace."""

import itertools
from collections.abc import Callable

import pytest
from django.db import connection
from django.db.models.functions import Now

from dpp_project.reasons import ReasonCode
from runs import transitions
from runs.claims import LOST, AlreadyAccepted, Lease, Lost, Moved, Won
from runs.intents import Intent
from runs.models import Run, RunHistory, RunInputs
from tests.gear.builders import runs as gear
from tests.gear.builders.tenants import a_tenant
from tests.gear.faults.rivals import OnAnotherConnection, one_after_the_other
from tests.gear.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

Call = Callable[[Run], Won | Lost]
OLD = {"created_at": 7_200, "updated_at": 7_200, "retention_until": 86_400}


def fenced(run: Run) -> Won | Lost:
    return Won() if transitions.fence(run_ids=[run.run_id], actor="rebuild") else LOST


def claim(edge: Callable[..., Won | Lost], intent: Intent, actor: str) -> Call:
    return lambda run: edge(run=run, intent=intent, actor=actor)


def worked(run: Run) -> Won | Lost:
    return transitions.claim_worked(
        run=run,
        lease_token=gear.LEASE_TOKEN,
        token="worker",
        intent=gear.COMPLETED,
        actor="worker",
    )


def retaken(run: Run) -> Won | Lost:
    return transitions.retake(run=run, actor="reconciler")


def committed(run: Run) -> Won | Lost:
    return transitions.commit(claim=gear.claim_of(run), taken_micros=gear.ACTUAL_MICROS)


UNHELD: dict[str, Call] = {
    "drop": lambda run: transitions.drop(run_id=run.run_id, version=run.version),
    "resume": lambda run: transitions.resume(run_id=run.run_id, version=run.version, actor="api"),
    "reserve": lambda run: transitions.reserve(run_id=run.run_id, version=run.version, actor="api"),
    "claim_abandoned": claim(transitions.claim_abandoned, gear.REFUND, "hold_auditor"),
}
HELD: dict[str, Call] = {
    "start": lambda run: transitions.start(run_id=run.run_id, version=run.version, lease_token="l", actor="worker"),
    "claim_never_started": claim(transitions.claim_never_started, gear.REFUND, "sweeper"),
    "claim_unsent": claim(transitions.claim_unsent, gear.REFUND, "api"),
    "claim_dead_lettered": claim(transitions.claim_dead_lettered, gear.REFUND, "dead_letters"),
    "claim_canceled": claim(transitions.claim_canceled, gear.REFUND, "owner"),
}
WORKING: dict[str, Call] = {
    "claim_worked": worked,
    "claim_lease_expired": claim(transitions.claim_lease_expired, gear.fee(), "reaper"),
    "claim_canceled": claim(transitions.claim_canceled, gear.fee(ReasonCode.CANCELED_BY_OWNER), "owner"),
}
CLAIMED: dict[str, Call] = {
    "commit": committed,
    "retake": retaken,
    "reintend": lambda run: transitions.reintend(claim=gear.claim_of(run), charge_micros=gear.FEE_MICROS),
}
ENDED: dict[str, Call] = {
    "dispute": lambda run: transitions.dispute(run_id=run.run_id, version=run.version, actor="operator:kim"),
    "expire": lambda run: transitions.expire(run_id=run.run_id, version=run.version, actor="retention"),
}
DISPUTED: dict[str, Call] = {
    "uphold": lambda run: transitions.resolve(run_id=run.run_id, version=run.version, refunded=False, actor="kim"),
    "refund": lambda run: transitions.resolve(run_id=run.run_id, version=run.version, refunded=True, actor="lee"),
    "expire": ENDED["expire"],
}
ARENAS: dict[str, tuple[Callable[[], Run], dict[str, Call]]] = {
    "unheld": (lambda: gear.aged(gear.accepted(), **OLD), UNHELD),
    "held": (lambda: gear.aged(gear.reserved(), dead_lettered_at=1, **OLD), HELD),
    "working": (lambda: gear.aged(gear.working(), lease_expires_at=1, **OLD), WORKING),
    "claimed": (lambda: gear.aged(gear.claimed(), finalize_claimed_at=3_600), CLAIMED),
    "ended": (lambda: gear.aged(gear.committed(), **OLD), ENDED),
    "disputed": (lambda: gear.aged(gear.disputed(), **OLD), DISPUTED),
}


@pytest.mark.contract("DPP-34", "DPP-30", "DPP-40", "DPP-41", "DPP-27", "DPP-08")
@pytest.mark.parametrize("arena", ARENAS)
def test_dpp_34_of_two_edges_at_once_the_second_loses_and_leaves_no_trace(arena: str) -> None:
    make, edges = ARENAS[arena]
    for (first_name, first), (second_name, second) in itertools.product(edges.items(), edges.items()):
        run = make()
        seen: list[object] = []

        def winning(run: Run = run, first: Call = first, seen: list[object] = seen) -> Won | Lost:
            outcome = first(run)
            seen.append(gear.everything(run.run_id))
            return outcome

        outcomes = one_after_the_other(winning, lambda run=run, second=second: second(run))  # type: ignore[misc]
        assert isinstance(outcomes[0], Won), (first_name, second_name)
        assert outcomes[1] is LOST, (first_name, second_name)
        assert gear.everything(run.run_id) == seen[0], (first_name, second_name)


@pytest.mark.contract("DPP-55")
@pytest.mark.parametrize("arena", ["unheld", "claimed"])
def test_dpp_55_a_fence_stops_every_step_under_way(arena: str) -> None:
    make, edges = ARENAS[arena]
    for name, edge in edges.items():
        run = make()
        outcomes = one_after_the_other(lambda run=run: fenced(run), lambda run=run, edge=edge: edge(run))  # type: ignore[misc]
        assert outcomes == (Won(), LOST), name
        assert gear.row(run.run_id).version == run.version + 1


@pytest.mark.contract("DPP-31", "DPP-40")
def test_dpp_31_a_lease_renewed_in_time_is_not_reaped() -> None:
    run = gear.aged(gear.working(), lease_expires_at=-1)
    reap = WORKING["claim_lease_expired"]

    def renew() -> set[object]:
        held = transitions.renew(leases=[Lease(run.run_id, gear.LEASE_TOKEN)])
        # The lease that the reaper can see runs out before it looks; the new one is not committed yet.
        wait_until(expired_to_others(run), what="the old lease to run out")
        return set(held)

    assert one_after_the_other(renew, lambda: reap(run)) == ({run.run_id}, LOST)
    after = gear.row(run.run_id)
    assert (after.status, after.finalize_stage, after.version) == ("PROCESSING", None, run.version)


def expired_to_others(run: Run) -> Callable[[], bool]:
    def look() -> bool:
        found = OnAnotherConnection(lambda: Run.objects.filter(pk=run.pk, lease_expires_at__lt=Now()).exists())
        return found.answer()

    return look


@pytest.mark.contract("DPP-31")
@pytest.mark.parametrize("edge", ["claim_worked", "claim_canceled"])
def test_dpp_31_a_worker_hears_from_its_renewal_that_the_run_was_claimed(edge: str) -> None:
    run = gear.working()
    outcomes = one_after_the_other(
        lambda: WORKING[edge](run), lambda: transitions.renew(leases=[Lease(run.run_id, gear.LEASE_TOKEN)])
    )
    assert isinstance(outcomes[0], Won)
    assert outcomes[1] == set()


@pytest.mark.contract("DPP-43")
def test_dpp_43_two_requeuers_send_once() -> None:
    run = gear.aged(gear.reserved(), next_send_at=1)

    def send() -> Won | Lost:
        return transitions.postpone_send(run_id=run.run_id, send_count=0)

    assert one_after_the_other(send, send) == (Won(), LOST)
    assert gear.row(run.run_id).send_count == 1


@pytest.mark.contract("DPP-43")
def test_dpp_43_a_send_again_does_not_disturb_the_start() -> None:
    run = gear.aged(gear.reserved(), next_send_at=1)
    outcomes = one_after_the_other(
        lambda: transitions.postpone_send(run_id=run.run_id, send_count=0), lambda: HELD["start"](run)
    )
    assert outcomes == (Won(), Moved(run.version + 1))
    assert gear.row(run.run_id).status == "PROCESSING"


@pytest.mark.contract("DPP-45")
def test_dpp_45_two_consumers_requeue_a_dead_letter_once() -> None:
    run = gear.reserved()

    def mark() -> Won | Lost:
        return transitions.mark_dead_lettered(run_id=run.run_id)

    assert one_after_the_other(mark, mark) == (Won(), LOST)


# accept


@pytest.mark.contract("DPP-06")
def test_dpp_06_two_inserts_of_one_key_make_one_run() -> None:
    tenant_id = a_tenant().tenant_id

    def accept() -> object:
        return gear.accept(tenant_id=tenant_id, idempotency_key="the-same-key")

    first, second = one_after_the_other(accept, accept)
    assert second == AlreadyAccepted(first.run_id, gear.PAYLOAD_HASH)  # type: ignore[attr-defined]
    assert Run.objects.count() == RunInputs.objects.count() == RunHistory.objects.count() == 1


@pytest.mark.contract("DPP-08")
def test_dpp_08_a_key_dropped_while_another_waits_for_it_is_the_others() -> None:
    run = gear.accepted(idempotency_key="the-same-key")

    def accept() -> object:
        return gear.accept(tenant_id=run.tenant_id, idempotency_key="the-same-key")

    outcome, answer = one_after_the_other(lambda: transitions.drop(run_id=run.run_id, version=0), accept)
    assert outcome == Won()
    found = Run.objects.get()
    assert (found.run_id, found.run_id == run.run_id) == (answer.run_id, False)
    assert RunInputs.objects.get().run_id == found.run_id


@pytest.mark.contract("DPP-06")
def test_dpp_06_fifty_at_once_make_one_run() -> None:
    tenant_id = a_tenant().tenant_id
    rivals = [
        OnAnotherConnection(lambda: gear.accept(tenant_id=tenant_id, idempotency_key="the-same-key")) for _ in range(50)
    ]
    answers = [rival.answer() for rival in rivals]
    assert len({answer.run_id for answer in answers}) == 1
    assert sum(isinstance(answer, AlreadyAccepted) for answer in answers) == 49
    assert Run.objects.count() == RunInputs.objects.count() == RunHistory.objects.count() == 1


@pytest.mark.contract("DPP-54", "DPP-34")
def test_dpp_54_twenty_commits_at_once_charge_once() -> None:
    run = gear.claimed()
    rivals = [OnAnotherConnection(lambda: committed(run)) for _ in range(20)]
    assert sum(isinstance(rival.answer(), Won) for rival in rivals) == 1
    with connection.cursor() as cursor:
        cursor.execute("SELECT kind, amount_usd_micros FROM ledger_entries WHERE run_id = %s", [run.run_id])
        assert cursor.fetchall() == [("CHARGE", -gear.ACTUAL_MICROS)]
