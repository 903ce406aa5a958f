"""The ledger's part of ending a run, as common table expressions for the statement that commits it.

One statement writes the run and its entries: no crash lies between them, and the loser of the commit's compare-and-set
writes no entry, since its `ended` is empty.
"""

from typing import Final

ENTRIES_OF_ENDED_RUN: Final = """
    ledger_charge AS (
        INSERT INTO ledger_entries (entry_id, tenant_id, run_id, kind, amount_usd_micros, actor)
        SELECT gen_random_uuid(), tenant_id, run_id, 'CHARGE', -taken_micros, actor
          FROM ended WHERE taken_micros > 0
    ),
    ledger_adjust AS (
        INSERT INTO ledger_entries (entry_id, tenant_id, run_id, kind, amount_usd_micros, reference, reason, actor)
        SELECT gen_random_uuid(), tenant_id, run_id, 'ADJUST', taken_micros - due_micros, 'run:' || run_id,
               'more was taken than the run was to cost', actor
          FROM ended WHERE taken_micros > due_micros
        RETURNING entry_id, tenant_id, amount_usd_micros
    ),
    ledger_pending AS (
        INSERT INTO pending_credits (entry_id, tenant_id, amount_usd_micros)
        SELECT entry_id, tenant_id, amount_usd_micros FROM ledger_adjust
    )
"""
"""To stand beside a CTE `ended` (tenant_id, run_id, taken_micros, due_micros, actor).

`taken_micros` is what the receipt says, `due_micros` what the run was to cost: CHARGE = what was taken, and what was
taken too much goes back as an ADJUST, which waits in pending_credits until it has reached the balance.
"""
