"""The scripts of the gates: whoever did not close one cannot open it, and a look at it disturbs nobody."""

import pytest
import redis

from budget.redis import keys
from budget.redis.gate import Gate, GateClosed

pytestmark = pytest.mark.contract("DPP-55")
ANOTHER_SERVER = "0" * 40


@pytest.fixture
def gate(valkey: redis.Redis) -> Gate:
    return Gate(valkey)


def test_the_gate_opens_to_its_own_token_under_an_epoch_of_this_server(gate: Gate, valkey: redis.Redis) -> None:
    epoch = gate.open(valkey, gate.close(valkey))
    assert epoch is not None
    assert epoch.startswith(f"{valkey.info('server')['run_id']}.")
    assert (valkey.get(keys.EPOCH), gate.renewed()) == (epoch, epoch)


def test_a_token_that_was_superseded_opens_nothing(gate: Gate, valkey: redis.Redis) -> None:
    earlier, later = gate.close(valkey), gate.close(valkey)
    assert gate.open(valkey, earlier) is None
    assert valkey.get(keys.EPOCH) == later


def test_a_gate_that_is_open_is_not_opened_anew(gate: Gate, valkey: redis.Redis) -> None:
    token = gate.close(valkey)
    epoch = gate.open(valkey, token)
    assert gate.open(valkey, token) is None
    assert valkey.get(keys.EPOCH) == epoch


def test_a_token_of_another_server_opens_nothing_here(gate: Gate, valkey: redis.Redis) -> None:
    """An image was loaded in which a rebuild was under way: what that one wrote need not be in it."""
    token = f"closed.{ANOTHER_SERVER}.a-rebuild"
    valkey.set(keys.EPOCH, token)
    assert gate.open(valkey, token) is None
    assert valkey.get(keys.EPOCH) == token


def test_a_look_at_a_closed_gate_leaves_it_to_whoever_closed_it(gate: Gate, valkey: redis.Redis) -> None:
    token = gate.close(valkey)
    with pytest.raises(GateClosed, match=token):
        gate.renewed()
    assert gate.open(valkey, token) is not None


@pytest.mark.parametrize("epoch", [None, f"{ANOTHER_SERVER}.an-epoch"])
def test_an_image_without_this_servers_epoch_is_closed(gate: Gate, valkey: redis.Redis, epoch: str | None) -> None:
    if epoch is not None:
        valkey.set(keys.EPOCH, epoch)
    with pytest.raises(GateClosed):
        gate.renewed()
    assert valkey.get(keys.EPOCH) != epoch or epoch is None


def test_a_tenants_gate_opens_to_its_own_token_alone(gate: Gate, valkey: redis.Redis) -> None:
    earlier, later = gate.close_tenant(valkey, "t_one"), gate.close_tenant(valkey, "t_one")
    assert not gate.open_tenant(valkey, "t_one", earlier)
    assert valkey.get(keys.gate_key("t_one")) == later
    assert gate.open_tenant(valkey, "t_one", later)
    assert valkey.get(keys.gate_key("t_one")) is None
    assert not gate.open_tenant(valkey, "t_one", later)
