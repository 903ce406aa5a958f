# ruff: noqa: T201  its output is the progress that a person sees
"""`make chaos SECONDS=300`: load and faults for so long, then time to recover, then the account."""

import argparse
import random
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from signal import SIGTERM, signal
from tempfile import TemporaryDirectory
from typing import Final

import psycopg
from botocore.exceptions import BotoCoreError, ClientError

from dpp_project.devstack.programs import REPOSITORY
from tests.proving import proofs
from tests.proving.chaos import automated, homes, homes_audit
from tests.proving.chaos.audit import Findings, audit, open_work
from tests.proving.chaos.automated import AutomatedTenant
from tests.proving.chaos.capped import CappedTenant
from tests.proving.chaos.customers import Account, Customers
from tests.proving.chaos.faults import KINDS, QUICK, Injector, Scenery
from tests.proving.chaos.page import Day, page
from tests.proving.chaos.receiver import EVENTS_OF_RUNS, Receiver
from tests.proving.chaos.stand import Stand

PAGE: Final = REPOSITORY / "docs" / "chaos.md"
PAGE_FROM_SECONDS: Final = 300
TENANTS: Final = ("t_chaos", "t_chaos_poor", "t_chaos_capped", "t_chaos_automated")
"""The first two keep workspaces."""
DRAIN_SECONDS: Final = 780.0
"""A lease of 120 s and its reaper, a claim of 300 s and its reconciler, a message of 150 s and its requeuer; an event
that was lost on its way is sent again after 600 s."""
QUICK_UP_TO_SECONDS: Final = 60
SHOWN: Final = 40


def main() -> int:
    options = _options()
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    print(f"chaos for {options.seconds} s, seed {seed}", flush=True)
    signal(SIGTERM, lambda *_: sys.exit("stopped"))  # so that the platform is taken down in any case
    quick = options.seconds <= QUICK_UP_TO_SECONDS
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="dpp-chaos-receiver-")))
        receiver = stack.enter_context(Receiver(folder, seed=seed))
        stand = stack.enter_context(
            Stand(small=quick, environ={**receiver.environ(), **homes.ENVIRON, **automated.ENVIRON})
        )
        *accounts, keeper, buyer = map(Account, TENANTS, stand.customer_keys(*TENANTS))
        customers = Customers(stand.api, stand.values["DPP_OPERATOR_KEY"], accounts, seed=seed)
        capped = CappedTenant(customers, keeper, seed=seed)
        keepers = homes.HomeKeepers(customers, accounts, seed=seed, keepers=4 if quick else 6)
        automations = AutomatedTenant(stand, customers, buyer, receiver, seed=seed)
        endpoints = [
            receiver.register(stand.api, accounts[0].key, path="/runs", events=EVENTS_OF_RUNS),
            receiver.register(stand.api, keeper.key, path="/caps", events=["cap.reached"]),
        ]
        injector = Injector(
            Scenery(stand, customers, random.Random(seed)),  # noqa: S311  repeatable, no secret
            kinds=tuple(kind for kind in KINDS if kind.name in QUICK or not quick),
        )
        began = time.monotonic()
        customers.come(reporters=2, others=[*capped.parts(), *keepers.parts(), *automations.parts()])
        injector.run(seconds=options.seconds)
        customers.leave()
        stand.mend()
        seconds, drain_began = time.monotonic() - began, time.monotonic()
        left = _drained(stand, customers, seconds=options.drain)
        drained_after = time.monotonic() - drain_began
        if not left:
            capped.decide_the_undecided()
            left = _drained(stand, customers, seconds=options.drain)
        if not left:
            capped.spend_the_last()
            left = _drained(stand, customers, seconds=options.drain)
            endpoints[1].close(stand.api, keeper.key)  # half and four fifths may be told half a minute later
            left = _drained(stand, customers, seconds=options.drain)
        wrong = homes_audit.put_all_to_rest(stand, keepers)
        customers.close()
        findings = audit(
            stand,
            customers.books,
            endpoints,
            told=accounts[0].tenant_id,
            capped=capped,
            keepers=keepers,
            automated=automations,
        )
        findings.wrong += wrong
        findings.wrong += [f"not over {options.drain:.0f} s after the last fault: {what}" for what in left]
        stand.keep = bool(findings.wrong)
        day = Day(
            seed=seed,
            seconds=seconds,
            drained_after=drained_after,
            events=injector.events,
            findings=findings,
            answers=customers.books.answers,
            restarts=stand.restarts(),
            kills=stand.kills,
        )
    if options.page is not None:
        options.page.write_text(page(day), encoding="utf-8")
        print(f"written to {options.page}")
    return _told(day, findings)


def _drained(stand: Stand, customers: Customers, *, seconds: float) -> list[str]:
    """Until nothing is open, no message is left, and every customer knows how each of its runs ended; what is not."""
    until = time.monotonic() + seconds
    said = ""
    while True:
        left = _left(stand, customers)
        if not left or time.monotonic() > until:
            return left
        if (now := "; ".join(left)) != said:
            said = now
            print(f"  waits for: {now}", flush=True)
        time.sleep(1.0)


def _left(stand: Stand, customers: Customers) -> list[str]:
    try:
        left = open_work(stand)
    except (psycopg.Error, BotoCoreError, ClientError) as error:
        return [f"a service that does not answer yet ({type(error).__name__})"]
    if not customers.are_gone():
        left.append("customers without an answer")
    unseen = sum(not order.seen_at for order in customers.books.accepted())
    return [*left, f"{unseen} runs not yet seen to end"] if unseen else left


def _told(day: Day, findings: Findings) -> int:
    print(
        f"accepted={findings.accepted} rows={findings.rows} faults={len(day.events)} seconds={day.seconds:.0f}"
        f" drained_after={day.drained_after:.0f} seed={day.seed} reports={findings.events.reports}"
        f" webhooks={findings.events.messages} taken={findings.events.letters} doubled={findings.events.doubled}"
        f" caps={vars(findings.caps)} homes={vars(findings.homes)}"
        f" automations={vars(findings.automations)}"
        f" ends={dict(findings.ends)} by={dict(findings.ended_by)}"
    )
    for what in findings.wrong[:SHOWN]:
        print(f"WRONG: {what}")
    if len(findings.wrong) > SHOWN:
        print(f"... and {len(findings.wrong) - SHOWN} more")
    proofs.report(cases=findings.accepted, seed=day.seed)
    print("chaos: " + ("FAILED" if findings.wrong else "nothing is wrong"))
    return 1 if findings.wrong else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seconds", type=int, default=300, help="how long load and faults last (default %(default)s)")
    parser.add_argument("--drain", type=float, default=DRAIN_SECONDS, help="how long recovery may take after that")
    parser.add_argument("--seed", type=int, help="deals the faults of an earlier day")
    parser.add_argument(
        "--page", type=Path, help=f"where to write the account; {PAGE.name} from {PAGE_FROM_SECONDS} s on"
    )
    options = parser.parse_args()
    if options.page is None and options.seconds >= PAGE_FROM_SECONDS:
        options.page = PAGE
    return options


if __name__ == "__main__":
    sys.exit(main())
