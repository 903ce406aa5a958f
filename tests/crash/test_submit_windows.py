"""Death after each step of a submit: what is left, what a retry makes of it, and who mends it when nobody retries.

The windows have the names they have in docs/concurrency.md.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from budget import services
from dpp_project.aws.sqs_sender import Unreachable
from dpp_project.stores import redis
from reaper import claim_reconciler, hold_auditor, requeuer
from runs import transitions
from runs.models import Run
from runs.submit import key_lock, wake_worker
from tests.gear.builders import caps, recovery
from tests.gear.builders import runs as gear
from tests.gear.builders.recovery import FUNDS_MICROS, Died
from tests.gear.builders.shop import PRICE_MICROS, Shop, a_request_key, messages

pytestmark = pytest.mark.contract("DPP-06", "CAP-08")


@pytest.fixture
def shop(shop: Shop) -> Shop:
    """What is counted under its caps is part of the law."""
    return caps.count_everything(shop)


@dataclass(frozen=True)
class Window:
    name: str
    module: Any
    step: str
    leaves: str
    """Nothing, a row at money NONE, or a good run; and whether its message was sent."""


WINDOWS = (
    Window("locked", key_lock, "take_key_lock", "nothing"),
    Window("accepted", transitions, "accept", "unheld"),
    Window("held", services, "hold", "unheld"),
    Window("reserved", transitions, "reserve", "unsent"),
    Window("mapped", key_lock, "write_mapping", "unsent"),
    Window("sent", wake_worker, "send_wakeup", "sent"),
)
every_window = pytest.mark.parametrize("window", WINDOWS, ids=lambda window: window.name)


def dies_after(window: Any, step: str) -> Callable[..., Any]:
    real = getattr(window, step)

    def act(*arguments: Any, **named: Any) -> Any:
        real(*arguments, **named)
        raise Died

    return act


@pytest.fixture
def a_death(monkeypatch: pytest.MonkeyPatch) -> Callable[[Shop, str, Any, str], None]:
    """A submit whose process ends right after this step: it releases no lock and answers nobody."""

    def die(shop: Shop, key: str, module: Any, step: str) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(module, step, dies_after(module, step))
            patch.setattr(key_lock, "release_key_lock", lambda _lock: None)
            with pytest.raises(Died):
                shop.submit(key=key)

    return die


Death = Callable[[Shop, str, Any, str], None]


def lock_lapses(shop: Shop) -> None:
    for lock in shop.redis_keys(f"idem_lock:{shop.tenant.tenant_id}:*"):
        assert 0 < redis.redis_client().pttl(lock) <= 5_000
        redis.redis_client().delete(lock)


def minutes_pass(run: Run) -> None:
    """Old enough for whichever loop of recovery it is due to."""
    ages = {"created_at": 200, "updated_at": 200} | ({} if run.next_send_at is None else {"next_send_at": 50})
    gear.aged(run, **ages)


@every_window
def test_submit_dead_handler_keeps_others_out_for_five_seconds_at_most(
    shop: Shop, a_death: Death, window: Window
) -> None:
    key = a_request_key()
    a_death(shop, key, window.module, window.step)
    again = shop.submit(key=key)
    if window.name in {"mapped", "sent"}:
        assert again.status_code == 202
    else:
        assert (again.status_code, again.json()["reason_code"]) == (409, "IDEMPOTENCY_IN_PROGRESS")


@every_window
def test_submit_a_retry_goes_on_where_the_dead_one_stopped(shop: Shop, a_death: Death, window: Window) -> None:
    key = a_request_key()
    a_death(shop, key, window.module, window.step)
    lock_lapses(shop)
    answer = shop.submit(key=key)
    assert answer.status_code == 202
    (run,) = shop.runs()
    assert answer.json()["run_id"] == str(run.run_id)
    assert (run.status, run.money_state) == ("QUEUED", "RESERVED")
    assert shop.holds() == {str(run.run_id): PRICE_MICROS}
    if window.leaves == "unsent":
        assert messages() == []
        minutes_pass(run)
        recovery.run_loop(requeuer.requeue_runs)
    assert [message["run_id"] for message in messages()] == [str(run.run_id)]
    again = shop.submit(key=key)
    assert again.content == answer.content
    recovery.law_holds(shop.tenant)


@every_window
def test_submit_recovery_mends_it_when_nobody_retries(shop: Shop, a_death: Death, window: Window) -> None:
    key = a_request_key()
    a_death(shop, key, window.module, window.step)
    lock_lapses(shop)
    for run in shop.runs():
        minutes_pass(run)
    recovery.run_loop(hold_auditor.audit_holds)
    recovery.run_loop(requeuer.requeue_runs)
    recovery.law_holds(shop.tenant)
    if window.leaves == "nothing":
        shop.nothing_happened()
        return
    (run,) = shop.runs()
    if window.leaves == "unheld":
        assert (run.status, run.money_state, run.last_error_reason_code) == ("FAILED", "REFUNDED", "SUBMIT_ABANDONED")
        assert run.idempotency_key is None
        assert (shop.holds(), shop.balance_micros(), messages()) == ({}, FUNDS_MICROS, [])
        assert shop.submit(key=key).json()["run_id"] != str(run.run_id)
        return
    assert (run.status, run.money_state) == ("QUEUED", "RESERVED")
    assert shop.holds() == {str(run.run_id): PRICE_MICROS}
    assert {message["run_id"] for message in messages()} == {str(run.run_id)}


@every_window
def test_dpp_08_an_unheld_row_is_invisible_to_its_tenant(shop: Shop, a_death: Death, window: Window) -> None:
    a_death(shop, a_request_key(), window.module, window.step)
    expected = 1 if window.leaves in {"unsent", "sent"} else 0
    assert len(shop.get("/v1/runs").json()["runs"]) == expected
    for run in shop.runs():
        assert shop.get(f"/v1/runs/{run.run_id}").status_code == (200 if expected else 404)
        assert shop.cancel(str(run.run_id)).status_code == (200 if expected else 404)


TAKING_BACK = (
    Window("claimed", transitions, "claim_unsent", "claimed"),
    Window("refunded", services, "refund", "claimed"),
    Window("taken back", transitions, "commit", "ended"),
)


@pytest.mark.contract("DPP-09")
@pytest.mark.parametrize("window", TAKING_BACK, ids=lambda window: window.name)
def test_dpp_09_death_while_taking_back_leaves_the_intent_to_the_reconciler(
    shop: Shop, a_death: Death, window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_wakeup: object) -> None:
        raise Unreachable("no answer")

    key = a_request_key()
    with monkeypatch.context() as patch:
        patch.setattr(wake_worker, "send_wakeup", refuse)
        a_death(shop, key, window.module, window.step)
    lock_lapses(shop)
    (run,) = shop.runs()
    if window.leaves == "claimed":
        retry = shop.submit(key=key)
        assert (retry.status_code, retry.json()["reason_code"]) == (409, "IDEMPOTENCY_IN_PROGRESS")
        lock_lapses(shop)
        recovery.minutes_pass(run)
        recovery.run_loop(claim_reconciler.reconcile_claims)
    ended = gear.row(run.run_id)
    assert (ended.status, ended.money_state) == ("FAILED", "REFUNDED")
    assert ended.last_error_reason_code == "QUEUE_ENQUEUE_FAILED"
    assert ended.idempotency_key is None
    assert (shop.holds(), shop.balance_micros()) == ({}, FUNDS_MICROS)
    recovery.law_holds(shop.tenant)
    assert shop.submit(key=key).json()["run_id"] != str(run.run_id)
