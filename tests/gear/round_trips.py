"""Counts what a request asks of the services: trips to Redis, statements, requests to SQS."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import redis
from django.db import connection
from django.test.utils import CaptureQueriesContext
from redis.connection import AbstractConnection

from dpp_project.aws.connections import Connections
from dpp_project.stores.lua import LuaScript


@dataclass
class Trips:
    redis: int = 0
    sql: list[str] = field(default_factory=list)
    sqs: int = 0


@contextmanager
def counted(*, scripts_loaded: bool = True) -> Iterator[Trips]:
    """A pipeline is one trip, however many commands it carries.

    A script that the server has not seen yet costs two trips more, once: each is loaded before its call, uncounted,
    but where its loading is what is looked at.
    """
    trips = Trips()
    send: Any = AbstractConnection.send_packed_command
    exchange = Connections.exchange
    call_script: Any = LuaScript.__call__

    def counting_send(self: Any, *arguments: Any, **options: Any) -> Any:
        trips.redis += 1
        return send(self, *arguments, **options)

    def call_loaded(script: LuaScript, client: redis.Redis, **words: Any) -> Any:
        before = trips.redis
        if scripts_loaded:
            client.script_load(script.text)
        trips.redis = before
        return call_script(script, client, **words)

    def counting_exchange(self: Any, method: str, *arguments: Any) -> Any:
        trips.sqs += method == "POST"
        return exchange(self, method, *arguments)

    with (
        mock.patch.object(AbstractConnection, "send_packed_command", counting_send),
        mock.patch.object(LuaScript, "__call__", call_loaded),
        mock.patch.object(Connections, "exchange", counting_exchange),
        CaptureQueriesContext(connection) as queries,
    ):
        yield trips
        trips.sql = [query["sql"] for query in queries.captured_queries]
