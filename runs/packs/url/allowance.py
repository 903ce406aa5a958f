"""The operator's exceptions to public addresses only: single names, each at one address, and who vouches for them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dpp_project.outbound import private_hosts

PRIVATE_HOSTS: Final = "DPP_URL_PRIVATE_HOSTS"
CA_FILE: Final = "DPP_URL_CA_FILE"


@dataclass(frozen=True)
class Allowance:
    """`hosts` are the worker's business, which connects; `ca_file` the job's, which talks."""

    hosts: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    ca_file: str | None = None

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> "Allowance":
        """DPP_URL_PRIVATE_HOSTS is `name=address:port, …`; ValueError names the entry that is not."""
        try:
            hosts = private_hosts.read_private_hosts(environ.get(PRIVATE_HOSTS))
        except ValueError as error:
            raise ValueError(f"{PRIVATE_HOSTS}: {error}") from None
        return cls(hosts=hosts, ca_file=environ.get(CA_FILE) or None)

    def faults(self) -> list[str]:
        if self.ca_file is not None and not Path(self.ca_file).is_file():
            return [f"{CA_FILE} names no file"]
        return []
