"""Chooses free ports on loopback and keeps them between starts.

They are drawn below the kernel's ephemeral range: a port from inside it can be taken, while its server is down for a
second, by any outgoing connection of any process.
"""

import json
import secrets
import socket
from collections.abc import Iterable
from pathlib import Path

LOWEST = 20_000
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_TRIES = 200


def is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the servers do: a connection still in TIME_WAIT does not make a port taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def choose_port(taken: Iterable[int] = ()) -> int:
    """A free port outside the ephemeral range."""
    highest = _below_ephemeral()
    avoid = set(taken)
    for _ in range(_TRIES):
        port = LOWEST + secrets.randbelow(highest - LOWEST + 1)  # no seed of a test's makes two processes choose alike
        if port not in avoid and is_free(port):
            return port
    raise OSError(f"no free port between {LOWEST} and {highest}")


def remembered_ports(path: Path, names: Iterable[str], fixed: dict[str, int] | None = None) -> dict[str, int]:
    """The port of each name: the one it had, unless another program uses it now; `fixed` ports are given.

    Called before our programs run, so a server that answers on a remembered port is not ours.
    """
    before = _devstack_ports_in_file(path)
    chosen: dict[str, int] = dict(fixed or {})
    for name in names:
        if name in chosen:
            continue
        port = before.get(name)
        chosen[name] = port if port and port not in chosen.values() and is_free(port) else choose_port(chosen.values())
    path.write_text(json.dumps(before | chosen, indent=1), encoding="utf-8")
    return chosen


def _devstack_ports_in_file(path: Path) -> dict[str, int]:
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(name): int(port) for name, port in loaded.items()} if isinstance(loaded, dict) else {}


def _below_ephemeral() -> int:
    try:
        lowest = int(_EPHEMERAL.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError):
        lowest = 32_768
    # A machine's ephemeral range may cover nearly all ports; then choose inside it.
    return lowest - 1 if lowest - LOWEST > 1_000 else 60_999
