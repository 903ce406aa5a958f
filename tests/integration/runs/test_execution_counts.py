"""What one life of a run asks of each service, from the request to the end, on a quiet day."""

import re
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis.connection
from django.db import connection

from dpp_project.aws.connections import Connections
from dpp_project.settings import ENV
from runs.box.box import Box
from runs.bucket import storage
from runs.models import Run
from runs.states import Stage
from runs.worker import execution
from runs.worker.execution import End
from tests.gear.builders.shop import Shop, a_body
from tests.gear.faults.scripted import Scripted
from tests.gear.servers.live_processes import a_worker
from tests.gear.waiting import wait_until
from tests.proving import proofs

SQL_MAX, REDIS_MAX, SQS_MAX, DELETES_MAX = 6, 5, 0.45, 0.2
RUNS = 80
AT_ONCE = 4


class Counted:
    def __init__(self) -> None:
        self.sql: list[str] = []
        self.redis: list[str] = []
        self.s3: list[str] = []


@contextmanager
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    """Round trips: a pipeline is one, as it is on the wire."""
    found = Counted()

    def statement(execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
        found.sql.append(re.sub(r"\s+", " ", sql).strip()[:60])
        return execute(sql, params, many, context)

    send: Any = redis.connection.AbstractConnection.send_packed_command

    def sent(self: Any, command: Any, *args: Any, **values: Any) -> Any:
        words = b"".join(command) if isinstance(command, list) else bytes(command)
        found.redis.append(words[:60].decode("utf-8", "replace").replace("\r\n", " "))
        return send(self, command, *args, **values)

    exchange: Any = Connections.exchange

    def exchanged(self: Any, method: str, path: str, *args: Any) -> Any:
        if method == "PUT":
            found.s3.append(f"{method} {path}")
        return exchange(self, method, path, *args)

    bucket: Any = storage.shared_run_storage().client()
    events = bucket.meta.events
    events.register("before-send.s3", _note(found), unique_id="counted")
    with monkeypatch.context() as patch, connection.execute_wrapper(statement):
        patch.setattr(Connections, "exchange", exchanged)
        patch.setattr(redis.connection.AbstractConnection, "send_packed_command", sent)
        yield found
    events.unregister("before-send.s3", unique_id="counted")


def _note(found: Counted) -> Any:
    def noted(request: Any, **_: Any) -> None:
        found.s3.append(f"{request.method} {request.url}")

    return noted


def a_life(shop: Shop) -> None:
    answer = shop.submit(a_body(inputs={"cost_usd": "0.0100"}))
    assert answer.status_code == 202, answer.content
    assert execution.execute_run(uuid.UUID(answer.json()["run_id"]), message=None) is End.COMMITTED


@pytest.mark.contract("DPP-88")
def test_execution_one_life_asks_little_of_each_service(
    shop: Shop, worker_here: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The authentication of the key and the loading of scripts happen once, and not in each life."""
    a_life(shop)
    with counting(monkeypatch) as found:
        a_life(shop)
    assert len(found.sql) <= SQL_MAX, found.sql
    assert len(found.redis) <= REDIS_MAX, found.redis
    assert [line.split("?")[0].rpartition("/")[2] for line in found.s3] == ["pack_envelope.json"], found.s3


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.contract("DPP-88")
def test_execution_many_lives_share_their_requests_to_the_queue(shop: Shop, tmp_path: Path) -> None:
    """Receiving and deleting are done for ten at once; what sending costs says test_joined_sends."""
    for _ in range(RUNS):
        assert shop.submit(a_body(inputs={}, reservation={"max_cost_usd": "0.0100"})).status_code == 202
    with (
        Scripted(str(ENV.SQS_ENDPOINT_URL)).running() as scripted,
        a_worker(tmp_path, concurrency=AT_ONCE, endpoint=scripted.url),
    ):
        wait_until(
            lambda: Run.objects.filter(finalize_stage=Stage.COMMITTED).count() == RUNS, seconds=60, what="all runs"
        )
        asked = Counter(scripted.actions)
    deletes = asked["DeleteMessageBatch"]
    assert deletes + asked["DeleteMessage"] <= DELETES_MAX * RUNS, asked
    assert asked.total() / RUNS <= SQS_MAX, asked
    proofs.report(cases=RUNS)
