"""Small planted faults, each of which breaks one promise and names the tests that must notice. `make mutants`."""

from typing import Final

from tests.proving.mutants import (
    of_auth_errors,
    of_books,
    of_box,
    of_cap_alerts,
    of_caps,
    of_caps_edges,
    of_caps_ways,
    of_console,
    of_door,
    of_events,
    of_events_server,
    of_hosts,
    of_money,
    of_normaliser,
    of_outbound,
    of_recovery,
    of_runs,
    of_tickets,
    of_usage,
    of_webhooks,
    of_webhooks_edge,
)
from tests.proving.mutants.mutant import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = (
    *of_auth_errors.MUTANTS,
    *of_console.MUTANTS,
    *of_door.MUTANTS,
    *of_events.MUTANTS,
    *of_events_server.MUTANTS,
    *of_hosts.MUTANTS,
    *of_runs.MUTANTS,
    *of_money.MUTANTS,
    *of_normaliser.MUTANTS,
    *of_books.MUTANTS,
    *of_box.MUTANTS,
    *of_cap_alerts.MUTANTS,
    *of_caps.MUTANTS,
    *of_caps_ways.MUTANTS,
    *of_caps_edges.MUTANTS,
    *of_outbound.MUTANTS,
    *of_recovery.MUTANTS,
    *of_tickets.MUTANTS,
    *of_usage.MUTANTS,
    *of_webhooks.MUTANTS,
    *of_webhooks_edge.MUTANTS,
)
