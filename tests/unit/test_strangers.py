"""What an address may ask without a key that was valid before, and whose keys are known (HRD-10, HRD-12)."""

import pytest

from dpp_project.api_server import strangers
from dpp_project.api_server.strangers import KnownKeys, StrangerLimits, Strangers

pytestmark = pytest.mark.contract("HRD-10", "HRD-12")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def bucket(clock: Clock) -> Strangers:
    return Strangers(StrangerLimits(burst=3, per_second=0.5), now=clock)


def test_hrd_10_an_address_without_a_key_may_ask_so_often_and_others_are_not_touched(
    bucket: Strangers, clock: Clock
) -> None:
    assert [bucket.take("a") for _ in range(5)] == [0, 0, 0, 3, 3]
    assert bucket.take("b") == 0
    clock.now = 2.0
    assert [bucket.take("a") for _ in range(2)] == [0, 3]
    clock.now = 3.5
    assert bucket.take("a") == 1
    clock.now = 1_000.0
    assert [bucket.take("a") for _ in range(4)] == [0, 0, 0, 3]


def test_hrd_10_neighbours_of_one_network_share_what_they_may(bucket: Strangers) -> None:
    assert [bucket.take(f"2001:db8::{n}") for n in range(4)] == [0, 0, 0, 3]


def test_hrd_10_who_turns_out_to_have_a_key_has_paid_nothing(bucket: Strangers) -> None:
    for _ in range(10):
        assert bucket.take("a") == 0
        bucket.give_back("a")
    assert len(bucket) == 0


def test_hrd_10_what_is_remembered_is_bounded(bucket: Strangers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "REMEMBERED_SITES", 100)
    monkeypatch.setattr(strangers, "REMEMBERED_KEYS", 100)
    known = KnownKeys()
    for number in range(300):
        bucket.take(str(number))
        known.learn(f"Bearer {number}", "t")
    assert len(bucket) == 100
    assert [known.tenant_of(f"Bearer {number}") for number in (0, 199, 200, 299)] == [None, None, "t", "t"]


def test_hrd_12_a_key_is_forgotten_when_it_is_refused() -> None:
    known = KnownKeys()
    known.learn("Bearer x", "t_a")
    assert (known.tenant_of("Bearer x"), known.tenant_of("Bearer y")) == ("t_a", None)
    known.forget("Bearer x")
    known.forget("Bearer x")
    assert known.tenant_of("Bearer x") is None
