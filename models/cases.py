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


def _endless(name: str, shows: str, flags: str, *, model: str = "life", progress: str = "every_run_ends") -> Case:
    return Case(
        name,
        shows,
        model,
        tuple(flags.split()),
        progress=progress,
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
    _sound(
        "event", "two publishers, two consumers, two crashes, each claim stolen once", "outbox", "CRASHES=2 STEALS=2"
    ),
    _sound("event-unlost", "nothing is lost, nobody sends again", "outbox", "NO_RESEND DOUBLED=1 RAISES=1"),
    _sound("event-lost", "messages lost and doubled, sent again", "outbox", "LOST=2 DOUBLED=1"),
    _sound(
        "event-failing",
        "sends that fail or are heard late, a queue that is away",
        "outbox",
        "FAILURES=2 OUTAGES=1 CRASHES=0",
    ),
    _sound("event-retried", "a handler that fails, the ladder, a rung lost", "outbox", "RAISES=2 LOST=1"),
    _sound("event-refused", "refused by its handler, by hand once more", "outbox", "REFUSALS=1 REDRIVES=1 STEALS=0"),
    _sound(
        "event-given-up",
        "failed too often, refused, or given up by the queue",
        "outbox",
        "RAISES=2 REFUSALS=1 LETTERS=1 OUTAGES=1 STEALS=0 CRASHES=2",
    ),
    _sound(
        "event-redriven",
        "sent again by hand after sends that failed",
        "outbox",
        "FAILURES=2 REDRIVES=1 CRASHES=0 STEALS=0",
    ),
    _sound("event-unsendable", "content that the queue does not take", "outbox", "UNSENDABLE=1 REDRIVES=1"),
    _sound(
        "caps-clock",
        "two days end, the clock goes back, money is rebuilt",
        "caps",
        "NIGHTS=2 CLOCK_GOES_BACK=1 REBUILDS=1 CRASHES=0 STEALS=0",
    ),
    _sound("caps-changed", "a limit removed, another set, a crash", "caps", "CHANGES=2 NIGHTS=0 STEALS=0"),
    _sound("caps-overtaken", "a handler wakes up late, money rebuilt", "caps", "SLOW=1 REBUILDS=1 CRASHES=0 STEALS=0"),
    _sound("caps-rebuilt", "money rebuilt, a day ends, a crash", "caps", "REBUILDS=1 STEALS=0"),
    _sound(
        "caps-changed-twice",
        "two changes at once",
        "caps",
        "CHANGES=2 CHANGERS=2 NIGHTS=0 CRASHES=0 STEALS=0",
    ),
    _sound("caps-first", "the first cap of a busy key, a crash", "caps", "BEGINS=0 CHANGES=1 NIGHTS=0 STEALS=0"),
    _sound(
        "caps-changed-lost",
        "a value lost while its limits change",
        "caps",
        "CHANGES=1 LOST_CAPS=1 NIGHTS=0 CRASHES=0 STEALS=0",
    ),
    _sound(
        "caps-late",
        "a handler wakes up late, the clock goes back, a crash",
        "caps",
        "SLOW=1 CLOCK_GOES_BACK=1 STEALS=0",
    ),
    _sound("caps-lost", "a value lost, a day ends, a crash", "caps", "LOST_CAPS=1 STEALS=0"),
    _sound(
        "caps-finished",
        "two crashes, a claim stolen, a result lost, a dispute",
        "caps",
        "CRASHES=2 DISPUTES=1 LOST_RESULTS=1",
    ),
    _sound(
        "caps-disputed-rebuilt",
        "a dispute and a stolen claim while money is rebuilt",
        "caps",
        "DISPUTES=1 REBUILDS=1 CRASHES=0 NIGHTS=0",
    ),
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
    _sound(
        "events-end",
        "every event is handled or given up",
        "outbox",
        "LOST=1 RAISES=1 STEALS=0 PUBLISHERS=1",
        progress="every_event_ends",
    ),
    _sound(
        "ws-settles",
        "every workspace comes to rest",
        "workspace",
        "FLIPS=2 CORRUPTS=1 BLIND=1",
        progress="every_workspace_settles",
    ),
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

BROKEN_EVENTS: Final = (
    _broken("event-apart", "the event is written behind its fact", "outbox", "EVENT_APART"),
    _broken("effect-apart", "the effect is committed before the row says so", "outbox", "EFFECT_APART"),
    _broken(
        "no-claim-of-event", "a consumer handles what it receives", "outbox", "DOUBLED=1 CRASHES=0 STEALS=0 NO_CLAIM"
    ),
    _broken("done-unasked", "a consumer ends a row that is another's", "outbox", "DOUBLED=1 CRASHES=0 DONE_UNASKED"),
    _broken(
        "finalizes-anyones",
        "a publisher ends a claim that is another's",
        "outbox",
        "FAILURES=2 CRASHES=0 FINALIZES_ANYONES",
    ),
    _broken("deletes-first", "a message is deleted before its effect", "outbox", "NO_RESEND DELETES_FIRST"),
    _broken(
        "loser-deletes",
        "a consumer that lost its claim deletes the message",
        "outbox",
        "NO_RESEND DOUBLED=1 LOSER_DELETES",
    ),
    _broken(
        "rung-deletes-first",
        "a retry deletes its message before it sends",
        "outbox",
        "NO_RESEND RAISES=1 RUNG_DELETES_FIRST",
    ),
    _broken("letter-apart", "a dead event's letter is written behind it", "outbox", "REFUSALS=1 LETTER_APART"),
    _broken(
        "early-counts",
        "a message that comes early counts as a failure",
        "outbox",
        "RAISES=1 CRASHES=0 STEALS=0 EARLY_COUNTS",
    ),
    _broken(
        "outages-count",
        "an outage of the queue counts as a failure",
        "outbox",
        "OUTAGES=2 CRASHES=0 STEALS=0 OUTAGES_COUNT",
    ),
    _broken("takeover-counts", "a takeover counts as a failure", "outbox", "CRASHES=2 STEALS=0 TAKEOVER_COUNTS"),
    _broken(
        "redrives-done",
        "a person sends again what was handled",
        "outbox",
        "FAILURES=2 REDRIVES=1 CRASHES=0 STEALS=0 REDRIVES_WHAT_IS_DONE",
    ),
    _broken("no-outbox-takeover", "nobody gives a dead publisher's claim back", "outbox", "NO_TAKEOVER"),
    _broken("no-resend", "nobody sends what was lost again", "outbox", "LOST=1 CRASHES=0 STEALS=0 NO_RESEND"),
    _broken(
        "resend-asks", "what a consumer has begun is not sent again", "outbox", "LOST=1 STEALS=0 RESEND_ASKS_THE_LEDGER"
    ),
    _endless(
        "no-lease-end",
        "a dead consumer's claim is its own for ever",
        "NO_LEASE_END",
        model="outbox",
        progress="every_event_ends",
    ),
    _endless(
        "handled-apart",
        "the outbox hears of the end behind its commit",
        "HANDLED_APART",
        model="outbox",
        progress="every_event_ends",
    ),
)
QUICK_BROKEN: Final = {"no-order", "no-look-at-row", "no-evidence", "no-reaper"}
"""One of each model, and of each way to fail. Each takes half a second, most of it a compiler's."""
QUICK_EVENTS: Final = {"effect-apart"}

BROKEN_CAPS: Final = (
    _broken("resume-redates", "a retry dates its row anew without asking", "caps", "STEALS=0 RESUME_REDATES"),
    _broken(
        "finisher-clock", "a finisher gives back by the clock", "caps", "CRASHES=0 STEALS=0 FINISHER_READS_THE_CLOCK"
    ),
    _broken("settle-recounts", "a settle that comes again counts again", "caps", "STEALS=0 SETTLE_COUNTS_AGAIN"),
    _broken("no-held-counts", "a rebuild forgets holds", "caps", f"{_REBUILT} REBUILD_FORGETS_HOLDS"),
    _broken(
        "rebuild-takes-today",
        "a rebuild dates by the clock alone",
        "caps",
        f"{_REBUILT} CLOCK_GOES_BACK=1 REBUILD_TAKES_TODAY",
    ),
    _broken(
        "no-least-revision",
        "a hold does not say which revision it knows",
        "caps",
        "LOST_CAPS=1 CRASHES=0 STEALS=0 NO_LEAST_REVISION",
    ),
    _broken(
        "counts-from-nothing",
        "the first cap of a busy key counts from nothing",
        "caps",
        "BEGINS=0 CHANGES=1 NIGHTS=0 CRASHES=0 STEALS=0 COUNTS_FROM_NOTHING",
        reverse=True,
    ),
    _broken(
        "older-change-wins",
        "the change that comes last sets the limits",
        "caps",
        "CHANGES=2 CHANGERS=2 NIGHTS=0 CRASHES=0 STEALS=0 OLDER_CHANGE_WINS",
        reverse=True,
    ),
    _broken(
        "lost-before-known",
        "a known gap: a value lost while a principal from before the first cap is remembered",
        "caps",
        "BEGINS=0 CHANGES=1 LOST_CAPS=1 NIGHTS=0 CRASHES=0 STEALS=0 BEFORE_ALL_KNOW",
        reverse=True,
    ),
)
QUICK_CAPS: Final = {"no-least-revision"}

WORKSPACE: Final = (
    _sound(
        "ws-lost",
        "a volume lost, an operation that fails for good, an operator",
        "workspace",
        "VOLUMES=4 VOLUMES_LOST=1 FAILURES=1 RECOVERS=2",
    ),
    _sound(
        "ws-past",
        "a database put back, a container that exits",
        "workspace",
        "VOLUMES=4 PASTS=1 EXITS=1 FLIPS=3 TAKEOVERS=0",
    ),
    _sound(
        "ws-past-failed",
        "a database put back, a failure, an operator",
        "workspace",
        "VOLUMES=4 PASTS=1 FAILURES=1 RECOVERS=1 TAKEOVERS=0",
    ),
    _sound("ws-past-late", "a database put back, a verb that comes late", "workspace", "VOLUMES=4 PASTS=1"),
    _sound(
        "ws-freed", "somebody removes the placeholder by hand", "workspace", "NAMES_FREED=1 FLIPS=3 RECOVERS=1 EXITS=1"
    ),
    _sound(
        "ws-deleted",
        "deleted, wanted back, purged; a failure",
        "workspace",
        "DELETES=1 UNDELETES=1 FLIPS=1 FAILURES=1 RECOVERS=1",
    ),
    _sound("ws-zombies", "two verbs that come late", "workspace", "TAKEOVERS=2 ZOMBIES=2 FLIPS=3 WRITES=2"),
    _sound("ws-blind", "a look that fails, an upload that S3 keeps wrongly", "workspace", "BLIND=1 CORRUPTS=1 FLIPS=3"),
    _sound("ws-monitors", "two monitors at once", "workspace", "MONITORS=2"),
    _sound(
        "ws-returns",
        "a volume that was lost is there again",
        "workspace",
        "VOLUMES=4 VOLUMES_LOST=1 RETURNS=1 RECOVERS=1",
    ),
    _sound("ws-exits", "a container exits, and its runtime starts it again", "workspace", "EXITS=1 FLIPS=4 WRITES=2"),
)

BROKEN_WORKSPACE: Final = (
    _broken(
        "ws-no-fence",
        "a stop leaves the container, and an archive does not ask for it",
        "workspace",
        "NO_FENCE NO_EPOCH EXITS=1",
    ),
    _broken("ws-no-placeholder", "the name is free during an archive", "workspace", "NO_PLACEHOLDER EXITS=1 FLIPS=3"),
    _broken(
        "ws-name-freed-early",
        "the name is freed while a doomed volume stands",
        "workspace",
        "FREES_THE_NAME_EARLY FAILURES=1 RECOVERS=1 FLIPS=3",
    ),
    _broken(
        "ws-op-id-reused",
        "an archive goes on under an older op_id",
        "workspace",
        "REUSES_THE_OP_ID NO_EPOCH FLIPS=3 WRITES=2",
    ),
    _broken("ws-volume-per-op", "an attempt fills the volume of the one before", "workspace", "VOLUME_PER_OPERATION"),
    _broken("ws-not-doomed", "a volume is deleted that may still be wanted", "workspace", "NO_DOOM FLIPS=3"),
    _broken("ws-abandons", "an archive is abandoned after DOOMED", "workspace", "ABANDONS_ANYWHERE FLIPS=3"),
    _broken("ws-any-key", "an older archive_key proves the upload", "workspace", "ANY_KEY_IS_PROOF FLIPS=3"),
    _broken("ws-unverified", "an upload is not read back", "workspace", "NO_VERIFY CORRUPTS=1"),
    _broken("ws-loser-commits", "a commit asks neither op_id nor attempt", "workspace", "LOSER_COMMITS"),
    _broken(
        "ws-no-marker",
        "a volume counts before it has its marker",
        "workspace",
        "STARTS_WITHOUT_MARKER FAILURES=1 RECOVERS=1",
    ),
    _broken("ws-by-name", "a container is removed by its name", "workspace", "REMOVES_BY_NAME FLIPS=4"),
    _broken("ws-no-rev", "a look made before an effect counts behind it", "workspace", "NO_REV"),
    _broken("ws-rev-late", "rev is read behind the look", "workspace", "REV_AFTER_THE_LOOK"),
    _broken("ws-old-claims", "VolumeLost is claimed by an old look", "workspace", "CLAIMS_BY_AN_OLD_LOOK"),
    _broken(
        "ws-no-monitor-cas",
        "a late look is written over a later one",
        "workspace",
        "NO_MONITOR_CAS MONITORS=2 TAKEOVERS=0",
    ),
    _broken(
        "ws-blind-is-gone", "a failed look says that nothing is there", "workspace", "FAILED_LOOK_IS_ABSENCE BLIND=1"
    ),
    _broken(
        "ws-lost-is-archived",
        "a lost volume counts as archived",
        "workspace",
        "LOST_IS_ARCHIVED VOLUMES_LOST=1 FLIPS=3",
    ),
    _broken(
        "ws-gc-by-age",
        "GC deletes what is not archive_key",
        "workspace",
        "GC_BY_AGE VOLUMES_LOST=1 FAILURES=1 RECOVERS=1",
    ),
    _broken(
        "ws-no-pin",
        "GC deletes what is being restored",
        "workspace",
        "NO_PIN VOLUMES_LOST=1 RECOVERS=1 FLIPS=4 TAKEOVERS=0 WRITES=2",
    ),
    _broken(
        "ws-no-epoch",
        "nobody compares how often a volume was started",
        "workspace",
        "VOLUMES=4 PASTS=1 NO_EPOCH",
        reverse=True,
    ),
    _broken(
        "ws-no-listing", "nobody looks for what is newer than the rows", "workspace", "VOLUMES=4 PASTS=1 NO_LISTING"
    ),
    _broken(
        "ws-recover-unlisted",
        "an operator gives up what is there",
        "workspace",
        "VOLUMES=4 PASTS=1 FAILURES=1 RECOVERS=1 TAKEOVERS=0 RECOVERS_UNLISTED",
    ),
    _broken(
        "ws-purge-unasked", "a purge does not ask again", "workspace", "DELETES=1 UNDELETES=1 FLIPS=1 PURGES_UNASKED"
    ),
    _endless(
        "ws-retries-corrupt",
        "an upload is tried again under its op_id",
        "CORRUPTS=1 RETRIES_WHAT_IS_CORRUPT",
        model="workspace",
        progress="every_workspace_settles",
    ),
)
QUICK_WORKSPACE: Final = {"ws-volume-per-op"}

_UNTROUBLED: Final = "CRASHES=0 LOST=0 NO_REQUEUER"
TURNS: Final = (
    _sound("turns", "three runs, two of a key, two crashes, a message lost, a cancel", "turns", "CRASHES=2"),
    _sound("turns-key", "three of a key, one is canceled, nobody sends again", "turns", f"{_UNTROUBLED} KEYED=3"),
    _sound("turns-unlost", "nobody dies, nothing is lost, and nobody sends again", "turns", _UNTROUBLED),
)
BROKEN_TURNS: Final = (
    _broken("turns-no-requeuer", "nobody sends a lost permit again", "turns", "CRASHES=0 NO_REQUEUER"),
    _broken("turns-no-keys", "the requeuer wakes nothing that is parked", "turns", "WAKES_NO_KEYS"),
    _broken("turns-no-lock", "a key is counted without its lock", "turns", "NO_LOCK"),
    _broken("turns-looks-unlocked", "who makes room looks without the lock", "turns", f"{_UNTROUBLED} LOOKS_UNLOCKED"),
    _broken("turns-loser", "who lost the start gives its permit back", "turns", f"{_UNTROUBLED} LOSER_ACKNOWLEDGES"),
    _broken("turns-parked", "what is parked takes the permit along", "turns", f"{_UNTROUBLED} PARKED_TAKES_THE_PERMIT"),
    _broken("turns-silent", "what is woken gets no message", "turns", f"{_UNTROUBLED} WAKES_SILENTLY"),
    _broken("turns-end", "the end of a run wakes nobody", "turns", f"{_UNTROUBLED} END_WAKES_NOBODY"),
    _broken("turns-cancel", "a cancel wakes nobody", "turns", f"{_UNTROUBLED} KEYED=3 CANCEL_WAKES_NOBODY"),
)
QUICK_TURNS: Final = {"turns-looks-unlocked"}

QUICK: Final = (
    _sound("life-small", "one of each, one crash, one theft", "life", "CANCELS=1 RENEWALS=1", small=True),
    _sound("rebuild-small", "money rebuilt, nobody dies", "life", _REBUILT, small=True),
    _sound("submit-small", "two clients, each once, one crash", "submit", "TRIES=0", small=True),
    _sound("event-small", "one event, a crash, a message lost", "outbox", "STEALS=0 LOST=1", small=True),
    _sound("caps-small", "two runs, a day ends, a crash", "caps", "STEALS=0", small=True),
    _sound("ws-small", "one workspace, an attempt taken over", "workspace", "", small=True),
    *(case for case in BROKEN if case.name in QUICK_BROKEN),
    *(case for case in BROKEN_CAPS if case.name in QUICK_CAPS),
    *(case for case in BROKEN_EVENTS if case.name in QUICK_EVENTS),
    *(case for case in BROKEN_WORKSPACE if case.name in QUICK_WORKSPACE),
    _sound("turns-small", "three runs, two of a key, nobody dies", "turns", f"{_UNTROUBLED} CANCELS=0", small=True),
    *(case for case in BROKEN_TURNS if case.name in QUICK_TURNS),
)
"""For `make test`."""

SOUND: Final = (*SAFETY, *WORKSPACE, *TURNS)
ALL: Final = (*SOUND, *LIVENESS, *BROKEN, *BROKEN_EVENTS, *BROKEN_CAPS, *BROKEN_WORKSPACE, *BROKEN_TURNS)
