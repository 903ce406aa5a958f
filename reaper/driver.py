"""Select, claim, finish: the way of every loop over rows.

    rows          all that is due, the oldest first, by keyset: each row once, so that one which stays due is no endless
                  loop, until none is left, the limit is reached or the pass's deadline comes. Rows that failed before
                  come last, behind all that the loop looks for, until a hundred have failed again
    finish_each   each row claimed by compare-and-set, and its claim carried out

A death after the claim leaves the intent to the reconciler. While money is closed nothing is claimed: a claim made then
would wait five minutes for the reconciler, and a row left alone is met by the next pass.
"""

from collections.abc import Callable, Collection, Generator, Hashable, Iterator, Sequence
from typing import Final

import redis
from django.db.models import QuerySet

from budget.redis import scripts
from budget.redis.gate import GateClosed
from reaper.tally import Tally
from runs.claims import LOST, Claimed, Lost
from runs.finish import finalization
from runs.finish.finalization import Unfinished
from runs.models import Run
from runs.reads import for_recovery
from runs.reads.for_recovery import Row

FAILED_AGAIN_MAX: Final = 100


def rows_left_behind(tally: Tally, *dues: QuerySet[Row], without_s3: int = 0) -> Iterator[Row]:
    """Of each of `dues` in turn what has not failed before, and only then what has.

    The first `without_s3` of `dues` need no S3. Where it is away, the rows of the others are left, also those that
    failed before: each would take as long as its timeouts.
    """
    failed = tally.failed_before()
    failed_of: list[tuple[QuerySet[Row], list[Hashable], bool]] = []
    for at, due in enumerate(dues):
        needs_s3 = at >= without_s3
        met = yield from _not_failed_before(tally, due, frozenset(failed), needs_s3=needs_s3)
        if met is not None:
            failed_of.append((due, [key for key in failed if key in met], needs_s3))
        elif not tally.s3_is_away:
            return
    for due, keys, needs_s3 in failed_of:
        yield from _tried_again(tally, due, keys, needs_s3=needs_s3)


def _not_failed_before(
    tally: Tally, due: QuerySet[Row], failed: Collection[Hashable], *, needs_s3: bool
) -> Generator[Row, None, set[Hashable] | None]:
    """Answers the failed rows it met on the way; None where it could not go through to the end."""
    met: set[Hashable] = set()
    for batch in for_recovery.batches_of_due(due):
        for row in batch:
            if row.pk in failed:
                met.add(row.pk)
            elif (needs_s3 and tally.s3_is_away) or not tally.goes_on():
                return None
            else:
                yield row
    return None if needs_s3 and tally.s3_is_away else met


def _tried_again(tally: Tally, due: QuerySet[Row], keys: Sequence[Hashable], *, needs_s3: bool) -> Iterator[Row]:
    errors = tally.errors
    for start in range(0, len(keys), for_recovery.BATCH):
        some = keys[start : start + for_recovery.BATCH]
        found: dict[Hashable, Row] = {row.pk: row for row in due.filter(pk__in=map(str, some))}
        for key in some:
            if needs_s3 and tally.s3_is_away:
                return
            if not tally.goes_on() or tally.errors - errors >= FAILED_AGAIN_MAX:
                return
            if key in found:
                yield found[key]


def finish_each(
    tally: Tally, claim: Callable[[Run], Claimed | Lost], *dues: QuerySet[Run], without_s3: int = 0
) -> None:
    """`claim` answers LOST where a rival was faster."""
    if money_is_closed():
        tally.wait_for("money")
        return
    for run in rows_left_behind(tally, *dues, without_s3=without_s3):
        with tally.each(run.run_id):
            claimed = claim(run)
            if claimed is LOST:
                tally.lost()
                continue
            finished = finalization.finish_claim(claimed.claim)
            tally.count(finished)
            if finished is Unfinished.WAITING and money_is_closed():
                tally.wait_for("money")


def money_is_closed() -> bool:
    """No charge and no refund is possible now."""
    try:
        scripts.shared_scripts().gate.renewed()
    except (GateClosed, redis.RedisError):
        return True
    return False
