"""A database and a Valkey of a bench's own, for this process."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg


@contextlib.contextmanager
def own_database() -> Iterator[str]:
    """Its address; it is empty, and dropped at the end."""
    named = urlsplit(os.environ["DATABASE_URL"])
    name = f"dpp_bench_{os.getpid()}"
    with psycopg.connect(urlunsplit(named), autocommit=True) as postgres:
        postgres.execute(f'CREATE DATABASE "{name}"')
    try:
        yield urlunsplit(named._replace(path=f"/{name}"))
    finally:
        with psycopg.connect(urlunsplit(named), autocommit=True) as postgres:
            postgres.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@contextlib.contextmanager
def own_services() -> Iterator[None]:
    """A database beside the one that is named, and a Valkey; both are gone afterwards."""
    from dpp_project.devstack import valkey

    with (
        own_database() as database_url,
        tempfile.TemporaryDirectory() as folder,
        valkey.running_valkey(Path(folder)) as server,
    ):
        os.environ |= {"DATABASE_URL": database_url, "REDIS_URL": server.url}
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dpp_project.settings")
        try:
            yield
        finally:
            from django.db import connection, connections

            connections.close_all()
            connection.close_pool()  # type: ignore[attr-defined]  # psycopg's alone
