"""The operator's exceptions to public addresses only, as a setting writes them: single names, each at one place."""

from collections.abc import Mapping
from ipaddress import ip_address


def read_private_hosts(text: str | None) -> Mapping[str, tuple[str, int]]:
    """`name=address:port, …`; ValueError names the entry that is not."""
    hosts = {}
    for entry in filter(None, map(str.strip, (text or "").split(","))):
        name, _, place = entry.partition("=")
        address, _, port = place.rpartition(":")
        try:
            hosts[name.strip().lower()] = (str(ip_address(address.strip("[] "))), int(port))
        except ValueError:
            raise ValueError(f"{entry!r} is not name=address:port") from None
    return hosts
