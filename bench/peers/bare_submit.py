"""The effects of a submit without any of its logic: raw drivers under granian, three trips, two statements, one send.

Nothing is checked, nothing is answered for, and a retry makes a second run. It is the measure of what is left to gain.
"""

import hashlib
import json
import os
import secrets
import uuid
from collections.abc import Callable, Iterable
from typing import Any

import psycopg_pool
import redis

from bench.peers.statements import ACCEPT, MARK, values_of
from bench.peers.statements import TENANT_ID as TENANT
from dpp_project.aws.sqs_sender import QueueMessage, shared_sender

POOL: Any = psycopg_pool.ConnectionPool(
    os.environ["DATABASE_URL"], min_size=8, max_size=8, kwargs={"autocommit": True, "prepare_threshold": 0}, open=True
)
REDIS = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
HOLD = REDIS.register_script("""
redis.call('DECRBY', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[2], ARGV[2], ARGV[1])
redis.call('HSET', KEYS[3], 'tenant_id', ARGV[3], 'reserved_usd_micros', ARGV[1])
redis.call('EXPIRE', KEYS[3], 3600)
return redis.call('GET', KEYS[1])
""")


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    raw = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
    body, key = json.loads(raw), environ["HTTP_IDEMPOTENCY_KEY"]
    run_id, token = uuid.uuid4(), secrets.token_hex(16)
    pipeline = REDIS.pipeline(transaction=False)
    pipeline.incr(f"bench-rate:{TENANT}")
    pipeline.set(f"bench-lock:{key}", token, nx=True, ex=5)
    pipeline.hget(f"bench-idem:{key}", "run_id")
    pipeline.get(f"bench:{TENANT}:balance")
    pipeline.execute()
    with POOL.connection() as connection:
        connection.execute(ACCEPT, values_of(run_id, key, hashlib.sha256(raw).hexdigest(), body))
        HOLD(
            keys=[f"bench:{TENANT}:balance", f"bench-holds:{TENANT}", f"bench-reserve:{run_id}"],
            args=[250_000, str(run_id), TENANT],
        )
        connection.execute(MARK, {"run_id": run_id})
    pipeline = REDIS.pipeline(transaction=False)
    pipeline.hset(f"bench-idem:{key}", mapping={"run_id": str(run_id), "payload_hash": "x"})
    pipeline.expire(f"bench-idem:{key}", 2_592_000)
    pipeline.delete(f"bench-lock:{key}")
    pipeline.execute()
    shared_sender().send(
        QueueMessage(json.dumps({"run_id": str(run_id), "tenant_id": TENANT}) + " " * 1_100, group=TENANT)
    )
    answer = json.dumps({"run_id": str(run_id), "status": "QUEUED"}).encode()
    start_response("202 Accepted", [("Content-Type", "application/json"), ("Content-Length", str(len(answer)))])
    return [answer]
