"""A submit while Redis, Postgres or SQS is away at one of its steps: what is answered, what stands, and the retry."""

from typing import Any

import pytest
from botocore.credentials import Credentials
from django.db import OperationalError

from dpp_project.aws import sqs_sender
from dpp_project.aws.sqs_sender import Sender
from dpp_project.settings import ENV
from dpp_project.stores import redis
from runs import transitions
from runs.submit import run_of_key
from tests.gear.builders import recovery
from tests.gear.builders.recovery import FUNDS_MICROS
from tests.gear.builders.shop import PRICE_MICROS, Shop, a_request_key, a_shop, messages, take_balance_to, top_up
from tests.gear.faults.proxy import Mode, Proxy

pytestmark = pytest.mark.contract("DPP-39")


def reason(response: Any) -> tuple[int, str]:
    return response.status_code, response.json()["reason_code"]


def one_good_run(shop: Shop, key: str) -> None:
    answer = shop.submit(key=key)
    assert answer.status_code == 202
    (run,) = shop.runs()
    assert answer.json()["run_id"] == str(run.run_id)
    assert (run.status, run.money_state) == ("QUEUED", "RESERVED")
    assert shop.holds() == {str(run.run_id): PRICE_MICROS}
    sent = [message["run_id"] for message in messages() if message["tenant_id"] == shop.tenant.tenant_id]
    assert sent == [str(run.run_id)]
    recovery.law_holds(shop.tenant)


def test_dpp_39_redis_away_at_the_lock_is_503_and_nothing_stands(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    key = a_request_key()
    with recovery.redis_through_proxy(monkeypatch) as proxy, proxy.outage(Mode.REFUSE):
        answer = shop.submit(key=key)
    assert reason(answer) == (503, "BUDGET_UNAVAILABLE")
    assert int(answer.headers["Retry-After"]) > 0
    assert shop.runs() == []
    one_good_run(shop, key)


@pytest.mark.parametrize("mode", [Mode.REFUSE, Mode.RESET])
def test_dpp_39_redis_away_at_the_hold_is_503_and_a_retry_resumes(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    key, accept = a_request_key(), transitions.accept
    with recovery.redis_through_proxy(monkeypatch) as proxy, monkeypatch.context() as patch:

        def accept_and_cut(**arguments: Any) -> Any:
            accepted = accept(**arguments)
            proxy.set(mode)
            return accepted

        patch.setattr(transitions, "accept", accept_and_cut)
        answer = shop.submit(key=key)
        assert reason(answer) == (503, "BUDGET_UNAVAILABLE")
        (run,) = shop.runs()
        assert (run.money_state, messages()) == ("NONE", [])
    redis.redis_client().delete(f"idem_lock:{shop.tenant.tenant_id}:{key}")
    one_good_run(shop, key)


def test_dpp_39_an_answer_of_the_hold_that_got_lost_is_found_by_the_retry(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The price was held, and nobody was told."""
    key, accept = a_request_key(), transitions.accept
    with recovery.redis_through_proxy(monkeypatch) as proxy, monkeypatch.context() as patch:
        a_shop().submit()  # so that the script is the next thing to be answered
        messages()

        def accept_and_cut(**arguments: Any) -> Any:
            accepted = accept(**arguments)
            proxy.cut_after(0)
            return accepted

        patch.setattr(transitions, "accept", accept_and_cut)
        assert reason(shop.submit(key=key)) == (503, "BUDGET_UNAVAILABLE")
    assert shop.balance_micros() == FUNDS_MICROS - PRICE_MICROS
    redis.redis_client().delete(f"idem_lock:{shop.tenant.tenant_id}:{key}")
    one_good_run(shop, key)


@pytest.mark.contract("DPP-08", "DPP-53")
def test_dpp_08_a_hold_that_comes_after_its_row_was_dropped_holds_nothing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sender gave it up, a retry was refused and dropped the row; then money came in, and then the hold arrives."""
    key, accept = a_request_key(), transitions.accept
    with recovery.redis_through_proxy(monkeypatch) as proxy:
        a_shop().submit()  # so that the hold is the next thing to be sent
        messages()

        def accept_and_hold_back(**arguments: Any) -> Any:
            accepted = accept(**arguments)
            proxy.hold_back()
            return accepted

        with monkeypatch.context() as patch:
            patch.setattr(transitions, "accept", accept_and_hold_back)
            assert reason(shop.submit(key=key)) == (503, "BUDGET_UNAVAILABLE")
        (run,) = shop.runs()
        assert run.money_state == "NONE"
        take_balance_to(shop.tenant, PRICE_MICROS - 1)
        assert reason(shop.submit(key=key)) == (402, "BUDGET_DRAINED")
        assert shop.runs() == []
        top_up(shop.tenant, 1)
        proxy.let_go()
    assert (shop.holds(), shop.balance_micros()) == ({}, PRICE_MICROS)
    recovery.law_holds(shop.tenant)
    assert shop.submit(key=key).status_code == 202


def test_dpp_39_redis_away_when_the_key_is_mapped_costs_nothing(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    key, reserve = a_request_key(), transitions.reserve
    with recovery.redis_through_proxy(monkeypatch) as proxy, monkeypatch.context() as patch:

        def reserve_and_cut(**arguments: Any) -> Any:
            outcome = reserve(**arguments)
            proxy.set(Mode.REFUSE)
            return outcome

        patch.setattr(transitions, "reserve", reserve_and_cut)
        first = shop.submit(key=key)
    assert first.status_code == 202
    assert shop.redis_keys("idem:*") == []
    redis.redis_client().delete(f"idem_lock:{shop.tenant.tenant_id}:{key}")
    assert shop.submit(key=key).content == first.content
    assert len(messages()) == 1


@pytest.mark.parametrize("step", ["accept", "reserve"])
@pytest.mark.parametrize("is_done", [False, True])
def test_dpp_39_postgres_away_is_503_and_a_retry_goes_on(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, step: str, *, is_done: bool
) -> None:
    """Whether the statement was carried out and only its answer lost, or not."""
    key, real = a_request_key(), getattr(transitions, step)

    def fail(**arguments: Any) -> Any:
        if is_done:
            real(**arguments)
        raise OperationalError("the connection is gone")

    with monkeypatch.context() as patch:
        patch.setattr(transitions, step, fail)
        answer = shop.submit(key=key)
    assert reason(answer) == (503, "SERVICE_UNAVAILABLE")
    assert shop.redis_keys("idem_lock*") == [], "the lock is given back at once"
    retry = shop.submit(key=key)
    assert retry.status_code == 202
    (run,) = shop.runs()
    assert (run.money_state, shop.holds()) == ("RESERVED", {str(run.run_id): PRICE_MICROS})
    was_marked = step == "reserve" and is_done
    assert len(messages()) == (0 if was_marked else 1), "a run that was marked is sent by the requeuer"
    recovery.law_holds(shop.tenant)


@pytest.mark.contract("DPP-09")
@pytest.mark.parametrize("mode", [Mode.REFUSE, Mode.RESET, Mode.BLACK_HOLE])
def test_dpp_09_sqs_away_is_503_and_everything_goes_back(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    host, port = str(ENV.SQS_ENDPOINT_URL).removeprefix("http://").split(":")
    key = a_request_key()
    with Proxy(host, int(port)) as proxy:
        through = Sender(
            endpoint=proxy.url,
            queue_url=ENV.DPP_QUEUE_URL,
            region=ENV.AWS_REGION,
            credentials=lambda: Credentials("test", "test"),
            timeout_seconds=0.2,
        )
        try:
            with proxy.outage(mode), monkeypatch.context() as patch:
                patch.setattr(sqs_sender, "shared_sender", lambda: through)
                assert reason(shop.submit(key=key)) == (503, "QUEUE_ENQUEUE_FAILED")
        finally:
            through.close()
    (run,) = shop.runs()
    assert (run.status, run.money_state, run.idempotency_key) == ("FAILED", "REFUNDED", None)
    assert (shop.holds(), shop.balance_micros()) == ({}, FUNDS_MICROS)
    assert shop.submit(key=key).status_code == 202
    recovery.law_holds(shop.tenant)


def test_submit_an_unforeseen_error_gives_the_lock_back(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("unforeseen")

    key = a_request_key()
    with monkeypatch.context() as patch:
        patch.setattr(run_of_key, "run_receipt", fail)
        assert reason(shop.submit(key=key)) == (500, "INTERNAL_ERROR")
    assert shop.redis_keys("idem_lock*") == []
    one_good_run(shop, key)
