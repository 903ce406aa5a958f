"""One indexed SELECT of a run and its JSON, with a raw driver under granian: no key, no rate, no balance, no trace."""

import json
import os
from collections.abc import Callable, Iterable
from typing import Any

import psycopg_pool

from bench.peers.statements import TENANT_ID

POOL: Any = psycopg_pool.ConnectionPool(
    os.environ["DATABASE_URL"], min_size=8, max_size=8, kwargs={"autocommit": True, "prepare_threshold": 0}, open=True
)
SELECT = (
    "SELECT run_id, status, money_state, reservation_max_cost_usd_micros, actual_cost_usd_micros,"
    " minimum_fee_usd_micros, created_at, updated_at, trace_id FROM runs WHERE run_id = %s AND tenant_id = %s"
)


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    with POOL.connection() as connection:
        row = connection.execute(SELECT, [environ["PATH_INFO"].rpartition("/")[2], TENANT_ID]).fetchone()
    answer = json.dumps(row, default=str).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(answer)))])
    return [answer]
