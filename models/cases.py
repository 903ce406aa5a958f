"""What is checked: the whole protocol under every kind of fault, and the protocol without each of its points."""

import enum
from dataclasses import dataclass
from typing import Final


class Expected(enum.Enum):
    HOLDS = "holds"
    VIOLATES = "an assertion fails"
    NEVER_ENDS = "a cycle without progress"


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    shows: str
    model: str
    flags: tuple[str, ...] = ()
    progress: str | None = None
    """The liveness property to check under weak fairness, instead of the assertions."""
    expected: Expected = Expected.HOLDS
    reverse: bool = False
    """Try the processes in the other order, where that finds the violation sooner."""
    small: bool = False
    """Searched before a better compiler would have paid for itself."""


def _sound(name: str, shows: str, model: str, flags: str, *, progress: str | None = None, small: bool = False) -> Case:
    return Case(name, shows, model, tuple(flags.split()), progress=progress, small=small)


def _broken(name: str, shows: str, model: str, flags: str, *, reverse: bool = False) -> Case:
    return Case(name, shows, model, tuple(flags.split()), expected=Expected.VIOLATES, reverse=reverse, small=True)


def _endless(name: str, shows: str, flags: str) -> Case:
    return Case(
        name,
        shows,
        "life",
        tuple(flags.split()),
        progress="every_run_ends",
        expected=Expected.NEVER_ENDS,
        small=True,
    )


SAFETY: Final = (
    _sound(
        "submit-rebuilt",
        "two clients, one key, a crash while money is rebuilt",
        "submit",
        "REBUILDS=1 STEALS=0 TRIES=0",
    ),
    _sound("submit", "two clients, one key, a crash", "submit", ""),
    _sound("submit-poor", "two clients, one key, a top-up between them", "submit", "FUNDS=0 TOP_UPS=1"),
    _sound(
        "submit-refused",
        "nobody looks for holds whose row was dropped, and nobody dies",
        "submit",
        "FUNDS=0 TOP_UPS=1 CRASHES=0 NO_HOLD_AUDIT",
    ),
    _sound("submit-audited", "two clients, one key, two auditors", "submit", "AUDITORS=2 STEALS=2 TRIES=0"),
    _sound("life", "two of each who may touch a run", "life", "WORKERS=2 CLAIMERS=2 CANCELS=1"),
    _sound("leases", "leases renewed, lost and stolen", "life", "WORKERS=2 CANCELS=1 RENEWALS=2 CRASHES=3 STEALS=2"),
    _sound("takeovers", "two reconcilers, claims stolen", "life", "RECONCILERS=2 CRASHES=2 STEALS=3 CANCELS=1"),
    _sound("messages", "lost, repeated and dead", "life", "LETTERS=1 RESENDS=1 LOST_MESSAGES=1"),
    _sound("letters-rebuilt", "dead letters while money is rebuilt", "life", "LETTERS=1 REBUILDS=1 STEALS=0"),
    _sound("result-lost", "a result gone from the bucket, money rebuilt", "life", "LOST_RESULTS=1 REBUILDS=1"),
    _sound("rebuilds", "money rebuilt twice, of all or of one", "life", "REBUILDS=2 STEALS=0"),
    _sound("lock-lost", "two rebuilds at once, and a top-up", "rebuilds", "REBUILDS=2 TOP_UPS=1 CRASHES=0 STEALS=0"),
    _sound("lock-lost-crash", "one by hand, one by need, a crash, a claim stolen", "rebuilds", "REBUILDS=1 TOP_UPS=1"),
    _sound(
        "rebuild-frozen",
        "a rebuild freezes for good, or wakes up behind its lease",
        "rebuilds",
        "REBUILDS=1 CRASHES=0 STEALS=0 LEASE=1",
    ),
    _sound("redis-lost", "an older image, and a rebuild by hand", "life", "LOSSES=1 REBUILDS=1 STEALS=0"),
    _sound("top-up-rebuilt", "a top-up while money is rebuilt", "life", "REBUILDS=1 TOP_UPS=1 CRASHES=0 STEALS=0"),
    _sound(
        "postgres-from-the-past",
        "a ledger that went back in time, asked by new connections, rebuilds and the watch, and accepted",
        "past",
        "PASTS=1 CRASHES=0 STEALS=0",
    ),
    _sound("top-up-from-the-past", "a top-up that was lost with it", "past", "PASTS=1 CRASHES=0 STEALS=0 TOP_UPS=1"),
    _sound("past-crash", "and each process that acts on the run may die once, or be overtaken", "past", "PASTS=1"),
    _sound("top-up-lost", "a top-up while Redis is lost", "life", "LOSSES=1 TOP_UPS=1 STEALS=0"),
)

LIVENESS: Final = (
    _sound(
        "ends", "every run ends", "life", "CANCELS=1 RENEWALS=1 RESENDS=1 LOST_MESSAGES=1", progress="every_run_ends"
    ),
    _sound("ends-rebuilt", "also through a rebuild", "life", "REBUILDS=1 STEALS=0", progress="every_run_ends"),
    _sound("opens", "closed money opens again", "life", "LOSSES=1 STEALS=0", progress="money_opens_again"),
    _sound(
        "credits",
        "every credit arrives",
        "life",
        "REBUILDS=1 TOP_UPS=1 STEALS=0 CRASHES=0",
        progress="every_credit_arrives",
    ),
    _sound("keys", "no row waits for ever", "submit", "STEALS=0", progress="no_row_waits_for_ever"),
)

_REBUILT: Final = "REBUILDS=1 CRASHES=0 STEALS=0"
_TWICE: Final = "REBUILDS=2 TOP_UPS=1 CRASHES=0 STEALS=0"

BROKEN: Final = (
    _broken("no-row-first", "money is held before the row stands", "life", "NO_ROW_FIRST"),
    _broken("no-claim-first", "a failed enqueue refunds before it claims", "life", "NO_CAS_FIRST"),
    _broken("no-intent", "a claim says nothing; each finisher decides", "life", "NO_INTENT"),
    _broken("no-receipt", "settle and refund leave nothing", "life", "NO_RECEIPT"),
    _broken("hold-expires", "holds have a time to live", "life", "HOLD_EXPIRES"),
    _broken("no-guard", "a worker starts a claimed row", "life", "NO_GUARD"),
    _broken("no-gate", "scripts go on while money is rebuilt", "life", f"{_REBUILT} NO_GATE"),
    _broken("no-fence", "the rebuild leaves versions alone", "life", f"{_REBUILT} NO_FENCE"),
    _broken(
        "no-lapse",
        "the lock of a frozen rebuild is its own for ever",
        "rebuilds",
        "REBUILDS=1 CRASHES=0 STEALS=0 LEASE=1 NO_LAPSE",
    ),
    _broken(
        "fenced-once", "a run that moved since its fence is taken for fenced", "life", "REBUILDS=2 STEALS=0 FENCES_ONCE"
    ),
    _broken(
        "no-order", "a tenant is written while all money is closed", "rebuilds", f"{_TWICE} NO_ORDER", reverse=True
    ),
    _broken(
        "no-waiting", "credits are forgotten before they are written", "rebuilds", f"{_TWICE} FORGETS_AT_THE_SNAPSHOT"
    ),
    _broken("no-check", "an older image is served as it is", "life", "LOSSES=1 CRASHES=0 STEALS=0 NO_CHECK"),
    _broken("no-asking-again", "a fenced finisher commits what it knew", "life", f"{_REBUILT} COMMITS_WHAT_IT_KNEW"),
    _broken("no-credit-receipt", "a credit leaves nothing", "life", f"{_REBUILT} TOP_UPS=1 NO_CREDIT_RECEIPT"),
    _broken("no-unique-key", "the lock alone guards the key", "submit", "CRASHES=0 STEALS=0 FUNDS=20 NO_UNIQUE_KEY"),
    _broken("no-look-at-row", "the mapping is believed", "submit", "CRASHES=0 STEALS=0 TRUSTS_THE_MAPPING"),
    _broken(
        "no-hold-audit",
        "nobody looks for holds whose row was dropped by one who died",
        "submit",
        "FUNDS=0 TOP_UPS=1 CRASHES=1 STEALS=0 NO_HOLD_AUDIT",
        reverse=True,
    ),
    _broken(
        "no-tombstone",
        "a row is dropped, and a hold of it may come late",
        "submit",
        "FUNDS=0 TOP_UPS=1 CRASHES=0 STEALS=0 NO_HOLD_AUDIT NO_TOMBSTONE_AT_THE_DROP",
    ),
    _broken(
        "no-evidence",
        "new connections and the watch do not ask what Postgres knows",
        "past",
        "PASTS=1 CRASHES=0 STEALS=0 OPENS_UNASKED",
    ),
    _broken(
        "no-evidence-rebuilt",
        "a rebuild takes whatever ledger there is for the truth",
        "past",
        "PASTS=1 CRASHES=0 STEALS=0 REBUILDS=1 OPENS_UNASKED REBUILDS_UNASKED",
    ),
    _broken(
        "no-entries",
        "the loss is accepted without entering what the ledger lacks",
        "past",
        "PASTS=1 CRASHES=0 STEALS=0 TOP_UPS=1 ACCEPTS_WITHOUT_ENTRIES",
    ),
    _endless("no-reconciler", "nobody takes a dead finisher's claim over", "RECONCILERS=0"),
    _endless("no-reaper", "nobody ends what a dead submit or worker left", "CLAIMERS=0"),
)

QUICK: Final = (
    _sound("life-small", "one of each, one crash, one theft", "life", "CANCELS=1 RENEWALS=1", small=True),
    _sound("rebuild-small", "money rebuilt, nobody dies", "life", _REBUILT, small=True),
    _sound("submit-small", "two clients, each once, one crash", "submit", "TRIES=0", small=True),
    *BROKEN,
)
"""For `make test`."""

ALL: Final = (*SAFETY, *LIVENESS, *BROKEN)
