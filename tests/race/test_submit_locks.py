"""What a submit has lost, the lock of its key or the row it resumed, it leaves alone from then on."""

from typing import Any

import pytest

from budget import services
from dpp_project.stores import redis
from runs import transitions
from tests.gear.builders import recovery
from tests.gear.builders import runs as gear
from tests.gear.builders.recovery import FUNDS_MICROS
from tests.gear.builders.shop import PRICE_MICROS, Shop, a_request_key, messages, take_balance_to

ANOTHERS = "another's token"


@pytest.mark.contract("DPP-05")
@pytest.mark.parametrize(("left_micros", "status"), [(0, 402), (PRICE_MICROS, 202)])
def test_dpp_05_a_handler_whose_lock_lapsed_leaves_the_next_ones_alone(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, left_micros: int, status: int
) -> None:
    """Refused or accepted: a lock given back and a lock given back with the mapping are two scripts."""
    key, hold = a_request_key(), services.hold
    lock = f"idem_lock:{shop.tenant.tenant_id}:{key}"

    def slept(**arguments: Any) -> Any:
        redis.redis_client().set(lock, ANOTHERS)
        take_balance_to(shop.tenant, left_micros)
        return hold(**arguments)

    monkeypatch.setattr(services, "hold", slept)
    assert shop.submit(key=key).status_code == status
    assert redis.redis_client().get(lock) == ANOTHERS


@pytest.mark.contract("DPP-06", "DPP-08")
def test_dpp_08_a_retry_that_lost_the_row_to_another_holds_nothing(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both retries saw the row; the other one has it now, and may yet have to drop it."""
    key, resume = a_request_key(), transitions.resume

    def die(**_: Any) -> Any:
        raise recovery.Died

    with monkeypatch.context() as patch:
        patch.setattr(services, "hold", die)
        with pytest.raises(recovery.Died):
            shop.submit(key=key)
    redis.redis_client().delete(f"idem_lock:{shop.tenant.tenant_id}:{key}")

    def second_to_resume(**arguments: Any) -> Any:
        gear.won(resume(**arguments))
        return resume(**arguments)

    monkeypatch.setattr(transitions, "resume", second_to_resume)
    answer = shop.submit(key=key)
    assert (answer.status_code, answer.json()["reason_code"]) == (409, "IDEMPOTENCY_IN_PROGRESS")
    (run,) = shop.runs()
    assert (run.status, run.money_state, run.version) == ("QUEUED", "NONE", 1)
    assert (shop.holds(), shop.balance_micros(), messages()) == ({}, FUNDS_MICROS, [])
