"""Who handles which event: each app's `events.py` declares it in `HANDLERS`."""

from collections.abc import Mapping
from functools import cache

from dpp_project import discovery
from dpp_project.outbox.descriptors import Handler


@cache
def event_handlers() -> Mapping[str, Handler]:
    """By event type, each handled once."""
    found: dict[str, Handler] = {}
    for module in discovery.discovered_modules("events"):
        for handler in getattr(module, "HANDLERS", ()):
            if handler.event_type in found:
                raise ValueError(f"two handlers are declared for {handler.event_type}")
            found[handler.event_type] = handler
    return dict(sorted(found.items()))
