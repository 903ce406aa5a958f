"""Many rows at once, by one statement each: for plans, and for what grows with the tables.

Tenants take turns by `n`; a tenant that is named several times has as many turns. Nothing is held in Redis for any of
these runs: a rebuild brings it there.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

_TENANTS: Final = (
    "INSERT INTO tenants (tenant_id, display_name) SELECT name, 'bulk' FROM unnest(%(names)s::text[]) name"
)
_ENDED: Final = """
INSERT INTO runs (run_id, tenant_id, pack_type, profile_version, status, money_state, payload_hash, version,
                  reservation_max_cost_usd_micros, minimum_fee_usd_micros, actual_cost_usd_micros, retention_until,
                  finalize_stage, finalize_token, finalize_claimed_at, intent_status, intent_money_state,
                  intent_charge_usd_micros, intent_reason_code, last_error_reason_code, last_actor, created_at,
                  updated_at, next_send_at, result_bucket, result_key, result_sha256, spend_day)
SELECT (substr(stamp, 1, 8) || '-' || substr(stamp, 9, 4) || '-7' || lpad(to_hex(n %% 4096), 3, '0') || '-8000-'
        || lpad(to_hex(n), 12, '0'))::uuid, (%(tenants)s::text[])[1 + n %% cardinality(%(tenants)s::text[])],
       CASE WHEN n %% 10000 = 7 THEN 'eval' ELSE (ARRAY['decision', 'url', 'ocr'])[n %% 3 + 1] END, 'bulk',
       CASE WHEN failed THEN 'FAILED' ELSE 'COMPLETED' END, 'SETTLED', repeat('a', 64), 4, 250000, 5000, 5000,
       now() + interval '20 days', 'COMMITTED', 'x', at, CASE WHEN failed THEN 'FAILED' ELSE 'COMPLETED' END, 'SETTLED',
       5000, CASE WHEN failed THEN reason END, CASE WHEN failed THEN reason END, 'bulk', at, at + interval '2 seconds',
       at, CASE WHEN NOT failed THEN 'b' END, CASE WHEN NOT failed THEN 'dpp/' || n || '/envelope.json' END,
       CASE WHEN NOT failed THEN repeat('b', 64) END, (at AT TIME ZONE 'UTC')::date
  FROM (SELECT n, at, lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') AS stamp, n %% 20 = 0 AS failed,
               CASE WHEN n %% 10000 = 0 THEN 'RESULT_LOST' ELSE 'PACK_FAILED' END AS reason
          FROM (SELECT n, now() - interval '1 hour' - interval '28 days' * (1 - n::numeric / %(of)s) AS at
                  FROM generate_series(%(first)s::bigint, %(last)s::bigint) n) each) made
"""
_CHARGES: Final = """
INSERT INTO ledger_entries (entry_id, tenant_id, run_id, kind, amount_usd_micros, actor, created_at, spend_day)
SELECT gen_random_uuid(), tenant_id, run_id, 'CHARGE', -actual_cost_usd_micros, 'bulk', updated_at, spend_day
  FROM runs WHERE finalize_stage = 'COMMITTED'
"""
_CREDITS: Final = """
INSERT INTO ledger_entries (entry_id, tenant_id, kind, amount_usd_micros, reference, actor, created_at)
SELECT gen_random_uuid(), name, 'TOPUP', 1000000000000, 'first', 'bulk', now() - interval '40 days'
  FROM unnest(%(names)s::text[]) name
"""
_INPUTS: Final = """
INSERT INTO run_inputs (run_id, inputs, timebox_sec, min_reliability_score, inline)
SELECT run_id, '{"sleep_ms": 1}', 60, 0.8, false FROM runs
"""
_METADATA: Final = """
INSERT INTO run_metadata (run_id, tenant_id, created_at, key, value)
SELECT run_id, tenant_id, created_at, 'project', CASE WHEN n % 1000 = 0 THEN 'rare' ELSE 'usual' END
  FROM (SELECT *, row_number() OVER (ORDER BY run_id) AS n FROM runs) each WHERE n % 10 = 0
"""
_IN_LINE: Final = """
WITH made AS (
    INSERT INTO runs (run_id, tenant_id, pack_type, status, money_state, payload_hash, version,
                      reservation_max_cost_usd_micros, minimum_fee_usd_micros, retention_until, next_send_at,
                      last_actor, created_at, updated_at)
    SELECT gen_random_uuid(), (%(tenants)s::text[])[1 + n %% cardinality(%(tenants)s::text[])], 'probe', 'QUEUED',
           'RESERVED', repeat('a', 64), 1, 250000, 5000, now() + interval '30 days', now() + interval '1 day', 'bulk',
           at, at
      FROM (SELECT n, now() - interval '50 minutes' * (1 - n::numeric / %(count)s) AS at
              FROM generate_series(1, %(count)s) n) each
    RETURNING run_id, tenant_id
)
INSERT INTO run_turns (run_id, tenant_id, pack_type, stands, fair_pass)
SELECT run_id, tenant_id, 'probe', 'WAITING', row_number() OVER (PARTITION BY tenant_id) * 2520 FROM made
"""
_LEFT_BEHIND: Final = """
INSERT INTO runs (run_id, tenant_id, pack_type, status, money_state, payload_hash, version,
                  reservation_max_cost_usd_micros, minimum_fee_usd_micros, retention_until, lease_token,
                  lease_expires_at, finalize_stage, finalize_token, finalize_claimed_at, intent_status,
                  intent_money_state, intent_charge_usd_micros, intent_reason_code, next_send_at, last_actor,
                  created_at, updated_at)
SELECT gen_random_uuid(), (%(tenants)s::text[])[1 + n %% cardinality(%(tenants)s::text[])], 'probe',
       CASE WHEN kind IN ('lease', 'claim') THEN 'PROCESSING' ELSE 'QUEUED' END,
       CASE WHEN kind = 'submit' THEN 'NONE' ELSE 'RESERVED' END, repeat('a', 64), 2, 250000, 5000,
       now() + interval '30 days', 'the-lease', now() - interval '1 minute',
       CASE WHEN kind = 'claim' THEN 'CLAIMED' END, CASE WHEN kind = 'claim' THEN 'token' END,
       CASE WHEN kind = 'claim' THEN now() - interval '1 hour' END, CASE WHEN kind = 'claim' THEN 'FAILED' END,
       CASE WHEN kind = 'claim' THEN 'SETTLED' END, CASE WHEN kind = 'claim' THEN 5000 END,
       CASE WHEN kind = 'claim' THEN 'PACK_FAILED' END,
       now() + CASE WHEN kind = 'message' THEN interval '-1 hour' ELSE interval '1 day' END, 'bulk',
       now() - CASE WHEN kind = 'start' THEN interval '2 hours' ELSE interval '30 minutes' END,
       now() - interval '10 minutes'
  FROM generate_series(1, %(count)s) n CROSS JOIN unnest(%(kinds)s::text[]) kind
"""
LEFT_BEHIND: Final = {  # by kind, and whose it is
    "lease": "at work, and the lease has run out: the reaper's",
    "start": "held two hours ago, and never started: the sweeper's",
    "message": "past its next send: the requeuer's",
    "claim": "claimed an hour ago: the reconciler's",
    "submit": "its money was never marked: the hold auditor's",
}
_AT_ONCE: Final = 100_000


@contextmanager
def without_triggers(cursor: Any) -> Iterator[None]:
    """Neither triggers nor foreign keys: else each row writes its history."""
    cursor.execute("SET session_replication_role = replica")
    try:
        yield
    finally:
        cursor.execute("SET session_replication_role = origin")


def tenants(cursor: Any, names: Sequence[str]) -> None:
    cursor.execute(_TENANTS, {"names": list(names)})


def credits(cursor: Any, names: Sequence[str]) -> None:  # noqa: A001  the ledger's word
    """A million dollars each, in the ledger alone."""
    cursor.execute(_CREDITS, {"names": sorted(set(names))})


def ended(cursor: Any, *, owners: Sequence[str], count: int) -> None:
    """Four weeks of runs up to an hour ago: one in 20 failed, one in 10,000 for a rare reason or of a rare pack."""
    for first in range(1, count + 1, _AT_ONCE):
        last = min(first + _AT_ONCE - 1, count)
        cursor.execute(_ENDED, {"tenants": list(owners), "of": count, "first": first, "last": last})


def charges(cursor: Any) -> None:
    """What the ended runs cost, in the ledger."""
    cursor.execute(_CHARGES)


def inputs(cursor: Any) -> None:
    """Of every run; a poll of one that completed reads how it wanted its result."""
    cursor.execute(_INPUTS)


def metadata(cursor: Any) -> None:
    """Of each tenth run; of one in a thousand with a rare value."""
    cursor.execute(_METADATA)


def in_line(cursor: Any, *, owners: Sequence[str], count: int) -> None:
    """Held, and waiting in the line before the workers."""
    cursor.execute(_IN_LINE, {"tenants": list(owners), "count": count})


def left_behind(cursor: Any, *, owners: Sequence[str], count: int) -> None:
    """So many of each kind that a recovery loop looks for."""
    cursor.execute(_LEFT_BEHIND, {"tenants": list(owners), "count": count, "kinds": list(LEFT_BEHIND)})
