"""What one process remembers of keys: for how long, how much, and whose."""

from uuid import uuid4

import pytest

from tenants.principals import REMEMBERED_SECONDS, Finding, Principal, PrincipalCache, RefusedKey


class Seconds:
    """A monotonic clock that moves when told."""

    def __init__(self) -> None:
        self.at = 1_000.0

    def __call__(self) -> float:
        return self.at


def a_principal() -> Principal:
    return Principal("t_a", uuid4(), "abcdefgh", frozenset(), None, 60, 60)


@pytest.mark.contract("DPP-11")
@pytest.mark.parametrize("finding", [a_principal(), RefusedKey.UNKNOWN], ids=["valid", "refused"])
def test_auth_memory_forgets_before_five_seconds(finding: Finding) -> None:
    seconds = Seconds()
    memory = PrincipalCache(monotonic=seconds)
    memory.keep("hash", finding, started=memory.started())
    seconds.at += REMEMBERED_SECONDS - 0.001
    assert memory.find("hash") == finding
    seconds.at += 0.001
    assert memory.find("hash") is None
    assert len(memory) == 0
    assert REMEMBERED_SECONDS < 5


def test_auth_memory_counts_from_before_the_row_was_read() -> None:
    seconds = Seconds()
    memory = PrincipalCache(monotonic=seconds)
    started = memory.started()
    seconds.at += 3  # a slow database: the row may have been read at its start
    memory.keep("hash", a_principal(), started=started)
    seconds.at += 0.9
    assert memory.find("hash") is not None
    seconds.at += 0.2
    assert memory.find("hash") is None


def test_auth_memory_use_does_not_prolong() -> None:
    seconds = Seconds()
    memory = PrincipalCache(monotonic=seconds)
    memory.keep("hash", a_principal(), started=memory.started())
    for _ in range(8):
        seconds.at += 0.5
        memory.find("hash")
    assert memory.find("hash") is None


@pytest.mark.contract("DPP-11")
def test_auth_memory_of_ten_thousand_strangers_is_bounded_and_costs_no_tenant_his_place() -> None:
    memory = PrincipalCache(refused_limit=100)
    principal = a_principal()
    memory.keep("valid", principal, started=memory.started())
    for number in range(10_000):
        memory.keep(f"random {number}", RefusedKey.UNKNOWN, started=memory.started())
    assert len(memory) == 101
    assert memory.find("valid") == principal
    assert memory.find("random 9999") is RefusedKey.UNKNOWN
    assert memory.find("random 0") is None


def test_auth_memory_of_valid_keys_drops_the_least_recently_used() -> None:
    memory = PrincipalCache(valid_limit=2)
    for name in ("one", "two"):
        memory.keep(name, a_principal(), started=memory.started())
    memory.find("one")
    memory.keep("three", a_principal(), started=memory.started())
    assert memory.find("two") is None
    assert memory.find("one") is not None


def test_auth_memory_holds_one_finding_a_key_the_latest() -> None:
    memory = PrincipalCache()
    memory.keep("hash", a_principal(), started=memory.started())
    memory.keep("hash", RefusedKey.REVOKED, started=memory.started())
    assert memory.find("hash") is RefusedKey.REVOKED
    assert len(memory) == 1
