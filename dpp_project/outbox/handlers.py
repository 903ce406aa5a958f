"""Who handles which event: each app's `events.py` declares it in `HANDLERS`."""

from collections.abc import Mapping
from functools import cache

from dpp_project import discovery
from dpp_project.outbox.descriptors import Handler, Loop


@cache
def handlers() -> Mapping[str, Handler]:
    """By event type, each handled once."""
    found: dict[str, Handler] = {}
    for module in discovery.modules("events"):
        for handler in getattr(module, "HANDLERS", ()):
            if handler.event_type in found:
                raise ValueError(f"two handlers are declared for {handler.event_type}")
            found[handler.event_type] = handler
    return dict(sorted(found.items()))


def loops() -> Mapping[str, Loop]:
    """Everything that runs in the process `events`, by name."""
    found: dict[str, Loop] = {}
    for module in discovery.modules("events"):
        for loop in getattr(module, "LOOPS", ()):
            if loop.name in found:
                raise ValueError(f"two loops are called {loop.name}")
            found[loop.name] = loop
    return found
