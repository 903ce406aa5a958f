"""Whether a cap leaves room for a run, as reserve.lua judges it: seen from outside, where only a refusal is decided."""

from datetime import date
from typing import Final

from budget.outcomes import CapReached
from budget.redis.view import SeenCaps, SeenScopes
from budget.redis.windows import NO_CAPS_KNOWN, PERIODS, CapPeriod, LeastRevisions, cap_window, date_number

LONGEST_FIRST: Final = tuple(reversed(PERIODS))


def first_full(
    caps: SeenScopes, *, price_micros: int, day: date | None, least: LeastRevisions = NO_CAPS_KNOWN
) -> CapReached | None:
    """The first window without room, the tenant's (None) before the key's, the longest first.

    A later `day` than a scope's own ends the windows that it does not lie in; None is each scope's own. A scope that
    was not seen, or has counted nothing yet, is left to the hold. So is one that is older than `least`, the change of
    caps that the caller knows of: the hold brings that change, and a refusal by what was before it would keep it out.
    """
    for lineage_id, seen in sorted(caps.items(), key=lambda scope: scope[0] is not None):
        known = least.tenant if lineage_id is None else least.key
        if seen is None or seen.day is None or seen.revision < known:
            continue
        then = max(day or seen.day, seen.day)
        for period in LONGEST_FIRST:
            limit = seen.limits[period]
            counted, used = _in_window(seen, period, then)
            if limit is not None and limit - counted < price_micros:
                return CapReached("tenant" if lineage_id is None else "key", period, limit, counted, used, then)
    return None


def _in_window(seen: SeenCaps, period: CapPeriod, day: date) -> tuple[int, int]:
    if cap_window(date_number(day), period) != cap_window(date_number(seen.day), period):
        return 0, 0
    return seen.counted[period], seen.used[period]
