"""Resolves names and connects to addresses. The checks of addresses are in fetching.py."""

import asyncio
import socket
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Final, Protocol

import certifi

PARALLEL_MAX: Final = 30
PRIVATE_HOSTS: Final = "DPP_URL_PRIVATE_HOSTS"
CA_FILE: Final = "DPP_URL_CA_FILE"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Network(Protocol):
    async def resolve(self, host: str) -> list[str]:
        """All addresses of a name. OSError where there is none."""

    async def connect(self, address: str, port: int, *, name: str) -> Streams:
        """TLS to exactly this address, with the certificate of `name`."""


@dataclass(frozen=True)
class Allowance:
    """The operator's exceptions to public addresses only: single names, each at one address."""

    hosts: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    ca_file: str | None = None

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> "Allowance":
        """DPP_URL_PRIVATE_HOSTS is `name=address:port, …`; ValueError names the entry that is not."""
        hosts = {}
        for entry in filter(None, map(str.strip, environ.get(PRIVATE_HOSTS, "").split(","))):
            name, _, place = entry.partition("=")
            address, _, port = place.rpartition(":")
            try:
                hosts[name.strip().lower()] = (str(ip_address(address.strip("[] "))), int(port))
            except ValueError:
                raise ValueError(f"{PRIVATE_HOSTS}: {entry!r} is not name=address:port") from None
        return cls(hosts=hosts, ca_file=environ.get(CA_FILE) or None)

    def faults(self) -> list[str]:
        if self.ca_file is not None and not Path(self.ca_file).is_file():
            return [f"{CA_FILE} names no file"]
        return []


class Internet:
    """The real one. Proxies that the environment may name are not asked."""

    def __init__(self, *, ca_file: str | None = None) -> None:
        # Threads of our own: the loop's would be waited for when it ends, and a lost name server takes its time.
        self._resolvers = ThreadPoolExecutor(PARALLEL_MAX, thread_name_prefix="resolve")
        self._tls = ssl.create_default_context(cafile=certifi.where())
        if ca_file is not None:
            self._tls.load_verify_locations(cafile=ca_file)
        self._tls.set_alpn_protocols(["http/1.1"])

    async def resolve(self, host: str) -> list[str]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._resolvers, _addresses, host)
        return list(dict.fromkeys(found))

    async def connect(self, address: str, port: int, *, name: str) -> Streams:
        return await asyncio.open_connection(address, port, ssl=self._tls, server_hostname=name)

    def close(self) -> None:
        self._resolvers.shutdown(wait=False, cancel_futures=True)


def _addresses(host: str) -> list[str]:
    return [str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
