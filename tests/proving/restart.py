"""Everything is stopped and started again in the middle of automations' tasks, services too (LIF-02).

Runs are at work, others queued behind them, a task is between two attempts, and an event has just come in. Then all is
asked to end as `make down` does it, and started as `make up` does. In the end the account of `make chaos` is made: one
task of each event, each attempt one run and one charge, one result, one message.

    python -m tests.proving.restart     (make prove P=restart)
"""

import random
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg.rows import dict_row

from dpp_project.devstack import up_down
from tests.gear.waiting import wait_until
from tests.proving.chaos import automated
from tests.proving.chaos.automated import AutomatedTenant
from tests.proving.chaos.automations_audit import AutomationFindings, open_automations, wrong_with_automations
from tests.proving.chaos.customers import Account, Customers
from tests.proving.chaos.receiver import Receiver
from tests.proving.chaos.stand import APPS, SERVICES, Stand
from tests.proving.proofs import report

TENANT: Final = "t_restarted"
SEED: Final = 11
AT_WORK: Final = 2
"""Slots of the small stand's worker."""
LONG, SHORT = 3 * AT_WORK, 1
EVENTS: Final = LONG + 2 * SHORT
SLEEP_MS: Final = 4_000
SECONDS: Final = 120.0
_RUNS: Final = "SELECT count(*) FROM runs WHERE tenant_id = %s AND status = %s"


def in_the_middle(stand: Stand, automations: AutomatedTenant) -> list[str]:
    """What is wrong once all was stopped, started, and has ended."""
    chance = random.Random(SEED)  # noqa: S311  repeatable, no secret
    automations.happens(automated.FORMS[0], chance, wants="fail", sleep_ms=SLEEP_MS)
    for number in range(LONG):
        automations.happens(automated.FORMS[number % 2], chance, wants="work", sleep_ms=SLEEP_MS)
    wait_until(
        lambda: counted(stand, _RUNS, TENANT, "PROCESSING") == AT_WORK and counted(stand, _RUNS, TENANT, "QUEUED") > 0,
        seconds=SECONDS,
        what="runs at work, and others behind them",
    )
    automations.happens(automated.FORMS[1], chance, wants="work", sleep_ms=1, times=2)
    up_down.take_stack_down(stand.folder)
    left = [name for name in (*APPS, *SERVICES) if stand.pid(name) is not None]
    up_down.bring_stack_up(stand.folder)
    return [f"{name} was not stopped" for name in left]


def account(stand: Stand, automations: AutomatedTenant, found: AutomationFindings) -> list[str]:
    wait_until(lambda: is_over(stand), seconds=SECONDS, pause_seconds=0.5, what="the end of what was begun")
    with psycopg.connect(stand.values["DATABASE_URL"], row_factory=dict_row) as connection:
        wrong = list(wrong_with_automations(connection, automations, found))
    if (found.events, found.tasks, found.messages - found.alarms) != (EVENTS,) * 3:
        wrong.append(f"of {EVENTS} events: {found}")
    succeeded = counted(stand, "SELECT count(*) FROM automation_task WHERE outcome = 'SUCCEEDED'")
    if succeeded != EVENTS - SHORT:
        wrong.append(f"{succeeded} tasks succeeded, and one alone was to fail")
    proved, said = stand.proves_its_money()
    return wrong if proved else [*wrong, f"money_verify: {said}"]


def is_over(stand: Stand) -> bool:
    with psycopg.connect(stand.values["DATABASE_URL"], connect_timeout=5) as connection:
        return not open_automations(connection)


def counted(stand: Stand, statement: str, *values: Any) -> int:
    with psycopg.connect(stand.values["DATABASE_URL"], connect_timeout=5) as connection:
        (count,) = connection.execute(statement, values).fetchone() or (0,)
    return int(count)


def main() -> int:
    found = AutomationFindings()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dpp-restart-receiver-")))
        receiver = stack.enter_context(Receiver(folder, seed=SEED))
        stand = stack.enter_context(Stand(small=True, environ={**receiver.environ(), **automated.ENVIRON}))
        tenant = Account(TENANT, *stand.customer_keys(TENANT))
        customers = Customers(stand.api, stand.values["DPP_OPERATOR_KEY"], [tenant], seed=SEED)
        automations = AutomatedTenant(stand, customers, tenant, receiver, seed=SEED)
        try:
            wrong = in_the_middle(stand, automations) + account(stand, automations, found) + customers.books.wrong
        except BaseException:
            stand.keep = True
            raise
        stand.keep = bool(wrong)
    for what in wrong:
        say(f"WRONG: {what}")
    report(cases=found.events, seed=SEED)
    say(f"restart: {'FAILED' if wrong else 'nothing is wrong'}; {found}")
    return 1 if wrong else 0


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201  a program for a person's eyes


if __name__ == "__main__":
    sys.exit(main())
