"""The two statements of a submit, as the product sends them, for the servers it is compared with."""

import json
import uuid
from typing import Any, Final

TENANT_ID: Final = "t_bench"

ACCEPT: Final = """
WITH made AS (
    INSERT INTO runs (run_id, tenant_id, pack_type, profile_version, status, money_state, idempotency_key,
                      payload_hash, reservation_max_cost_usd_micros, minimum_fee_usd_micros, retention_until,
                      trace_id, last_actor)
    VALUES (%(run_id)s, %(tenant_id)s, 'probe', 'bench', 'QUEUED', 'NONE', %(key)s, %(sha256)s, 250000, 5000,
            now() + interval '30 days', 'bench', 'bench')
    ON CONFLICT (tenant_id, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
    RETURNING run_id
)
INSERT INTO run_inputs (run_id, inputs, timebox_sec, min_reliability_score, inline)
SELECT run_id, %(inputs)s::jsonb, 90, 0.8, false FROM made
"""
MARK: Final = """
UPDATE runs SET money_state = 'RESERVED', next_send_at = now() + interval '150 seconds', version = version + 1,
       last_actor = 'bench', updated_at = now()
 WHERE run_id = %(run_id)s AND version = 0 AND status = 'QUEUED' AND money_state = 'NONE' AND finalize_stage IS NULL
"""


def values_of(run_id: uuid.UUID, key: str, sha256: str, body: dict[str, Any]) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "tenant_id": TENANT_ID,
        "key": key,
        "sha256": sha256,
        "inputs": json.dumps(body["inputs"]),
    }
