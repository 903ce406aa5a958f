"""A key for a caller that sends none: the same purchase within ten minutes has the same key, and makes one run.

`auto-{the hash's first 40 digits}-{generation}`: the generation is that of the newest run which was bought so, while it
is younger than ten minutes, and one more after that. Nothing is written here. Two that derive at once derive the same
key, and the unique index makes one run of them; a process that dies after it leaves nothing behind, and the retry
derives the same. So does one whose key was given back, for a run that was never queued.

Ages are the database's, for every process has a clock of its own. The newest is the one of the highest generation and
not of the latest date: a clock that was set back makes a replay of a purchase, and never two purchases of a retry.
"""

from typing import Final

from django.db import connection

NOT_YET: Final = ""
"""Stands for the key of a submission until it is derived."""
YOUNG_SECONDS: Final = 600
HINT: Final = (
    "This purchase was made less than 10 minutes ago and is not made again. To buy the same once more, "
    "send an idempotency key of your own."
)
_FORM: Final = "auto-{hash}-"
_LAST_GENERATION: Final = 10**18 - 1
"""Callers may send such keys themselves; whatever they count to, what follows is a key that a row can hold."""

# Only keys of that form stand in the index. The planner must not know which tenant, as in reads/for_tenant.py.
_NEWEST: Final = """
SELECT substring(idempotency_key from 47)::bigint,
       created_at > statement_timestamp() - make_interval(secs => %s)
  FROM runs
 WHERE tenant_id = (SELECT %s::text) AND payload_hash = %s
   AND idempotency_key LIKE 'auto-%%' AND left(idempotency_key, 46) = %s
   AND substring(idempotency_key from 47) ~ '^[0-9]{1,18}$'
 ORDER BY 1 DESC
 LIMIT 1
"""


def derived_key_of(*, tenant_id: str, payload_hash: str) -> str:
    """One statement."""
    stem = _FORM.format(hash=payload_hash[:40])
    with connection.cursor() as cursor:
        cursor.execute(_NEWEST, [YOUNG_SECONDS, tenant_id, payload_hash, stem])
        newest = cursor.fetchone()
    if newest is None:
        return f"{stem}1"
    generation, is_young = newest
    return f"{stem}{generation if is_young else min(generation + 1, _LAST_GENERATION)}"
