"""What 1,000 workspaces at rest cost the loops of their host, and Postgres for them. Target: 1 % of a core together.

    make bench B=workspace_monitor

It makes a database of its own and drops it. The driver is in memory, so that its own cost is not in the figure: a list
of 1,000 volumes a look. Half a minute is fifteen passes of each loop, in one of which all rows are due.

One run on two busy cores:

    the loops                                      0.48 % of a core   of 1.0 allowed, together
    postgres for them                              0.26 % of a core
"""

import time

from bench import _cpu
from bench._services import own_services

WORKSPACES = 1_000
HALF_MINUTES = 10
PASSES = 15
SECONDS = 30.0


def measure() -> None:
    from tests.gear.builders.tenants import a_tenant
    from tests.gear.builders.workspace_world import World

    world = World(a_tenant())
    world.standing(WORKSPACES)
    assert world.look().looked_at == 0
    ours = postgres = 0.0
    for _ in range(HALF_MINUTES):
        world.time_passes(seconds=SECONDS)
        looked, before, begun = 0, _cpu.by_part(), time.process_time()
        for _ in range(PASSES):
            looked += world.look().looked_at
            world.act()
        ours += time.process_time() - begun
        postgres += _cpu.between(before, _cpu.by_part())["postgres"] / 1_000
        assert looked == WORKSPACES
    whole = HALF_MINUTES * SECONDS
    print(f"{'the loops':44s} {100 * ours / whole:6.2f} % of a core   of 1.0 allowed, together")
    print(f"{'postgres for them':44s} {100 * postgres / whole:6.2f} % of a core")


def main() -> None:
    with own_services():
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        measure()


if __name__ == "__main__":
    main()
