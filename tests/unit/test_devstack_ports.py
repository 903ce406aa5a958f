"""Ports of the devstack: free, outside the ephemeral range, and the same at the next start."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpp_project.devstack import ports

NAMES = ("postgres", "redis", "aws", "api")


@pytest.fixture
def stranger() -> Iterator[int]:
    """A port on which another program listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", ports.choose_port()))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_port_someone_listens_on_is_not_free(stranger: int) -> None:
    assert not ports.is_free(stranger)


def test_a_chosen_port_is_free_and_never_lent_to_outgoing_connections() -> None:
    lowest_lent = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    for _ in range(20):
        port = ports.choose_port()
        assert ports.is_free(port)
        assert ports.LOWEST <= port < lowest_lent


def test_ports_are_the_same_at_the_next_start(tmp_path: Path) -> None:
    first = ports.remembered_ports(tmp_path / "ports.json", NAMES)
    assert len(set(first.values())) == len(NAMES)
    assert ports.remembered_ports(tmp_path / "ports.json", NAMES) == first


def test_a_remembered_port_that_a_stranger_took_is_replaced_and_the_others_stay(tmp_path: Path, stranger: int) -> None:
    path = tmp_path / "ports.json"
    before = ports.remembered_ports(path, NAMES) | {"redis": stranger}
    path.write_text(json.dumps(before), encoding="utf-8")
    after = ports.remembered_ports(path, NAMES)
    assert after["redis"] != stranger
    assert {name: port for name, port in after.items() if name != "redis"} == {
        name: port for name, port in before.items() if name != "redis"
    }
    assert ports.remembered_ports(path, NAMES) == after


def test_two_names_never_share_a_port(tmp_path: Path) -> None:
    path = tmp_path / "ports.json"
    same = ports.choose_port()
    path.write_text(json.dumps(dict.fromkeys(NAMES, same)), encoding="utf-8")
    assert len(set(ports.remembered_ports(path, NAMES).values())) == len(NAMES)


def test_a_fixed_port_is_taken_as_given(tmp_path: Path, stranger: int) -> None:
    assert ports.remembered_ports(tmp_path / "ports.json", NAMES, {"api": stranger})["api"] == stranger


@pytest.mark.parametrize("content", ["", "{", "[]", "null"])
def test_a_spoilt_memory_is_made_anew(tmp_path: Path, content: str) -> None:
    path = tmp_path / "ports.json"
    path.write_text(content, encoding="utf-8")
    assert set(ports.remembered_ports(path, NAMES)) == set(NAMES)
