"""A host is lost in the middle of a rebuild, and another opens the money within a minute (HRD-01).

One process stands for the host: it runs the gate's watch, and stops between its snapshot and its first write, with
all money closed, a transaction open, the job's lease and the rebuild's. Then it is frozen (SIGSTOP), or hangs, or its
link is cut: it lives in a network namespace of its own, whose cable goes down, so that no FIN and no RST is ever sent.
This process is the other host, and runs the watch every 5 s. When money has moved again the first one comes back, with
its older snapshot, and nothing of it is written.

    python -m tests.proving.hosts     (make prove P=hosts; without root the link is not cut)
"""

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from dpp_project.devstack import ports, valkey
from dpp_project.devstack.postgres import Postgres
from dpp_project.devstack.programs import spawn_program
from tests.gear.waiting import wait_until
from tests.proving.proofs import report

TENANT = "t_lost_host"
FUNDS_MICROS, MEANWHILE_MICROS = 1_000_000, 7
LIMIT_SECONDS = 60
EVERY_SECONDS = 5
"""How often the gate is watched."""
IN_THE_MIDDLE = "in the middle"
HOST = f"""
import sys
import django; django.setup()
from django.db import connection
from budget.rebuild import rebuild
from dpp_project.jobs import registry, runner
real = rebuild._counted_rebuild_balances
def then_stop(which):
    counted = real(which)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        print("{IN_THE_MIDDLE}", *cursor.fetchone(), flush=True)
    sys.stdin.readline()
    return counted
rebuild._counted_rebuild_balances = then_stop
print(runner.run_job_pass(registry.job_named("budget_gate_watch")).outcome.name, flush=True)
"""


@dataclass(frozen=True)
class Link:
    """A cable between this host and a namespace. Without root there is none, and the host stands here."""

    name: str
    octet: int
    there: bool

    @property
    def address(self) -> str:
        return f"10.213.{self.octet}.1" if self.there else "127.0.0.1"

    @property
    def inside(self) -> tuple[str, ...]:
        return ("ip", "netns", "exec", self.name) if self.there else ()

    def set(self, state: str) -> None:
        _ip("link", "set", f"{self.name}-a", state)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@contextmanager
def a_link() -> Iterator[Link]:
    name = f"dpp{os.getpid() % 100_000}"
    link = Link(name, os.getpid() % 250 + 1, there=os.geteuid() == 0)
    if not link.there:
        yield link
        return
    with ExitStack() as undone:
        _ip("netns", "add", name)
        undone.callback(_ip, "netns", "del", name)
        _ip("link", "add", f"{name}-a", "type", "veth", "peer", "name", f"{name}-b", "netns", name)
        _ip("addr", "add", f"{link.address}/24", "dev", f"{name}-a")
        link.set("up")
        _ip("-n", name, "addr", "add", f"10.213.{link.octet}.2/24", "dev", f"{name}-b")
        _ip("-n", name, "link", "set", f"{name}-b", "up")
        yield link


@contextmanager
def services(link: Link) -> Iterator[dict[str, str]]:
    """Postgres and Redis that both hosts reach, at the address of this end of the cable."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        place = Path(folder)
        place.chmod(0o755)
        listens = f"127.0.0.1,{link.address}" if link.there else "127.0.0.1"
        postgres = Postgres(
            place / "postgres" / "data", ports.choose_port(), secrets.token_hex(8), durable=False, listens=listens
        )
        postgres.create()
        with (postgres.folder / "pg_hba.conf").open("a", encoding="ascii") as rules:
            rules.write(f"host all all {link.address}/24 scram-sha-256\n")
        program = postgres.program()
        with (place / "postgres.log").open("wb") as output:
            server = spawn_program(
                program.command, environ={"PATH": "/usr/bin:/bin"}, output=output, privilege=program.privilege
            )
        stack.callback(server.wait)
        stack.callback(server.send_signal, signal.SIGINT)
        wait_until(postgres.ready, seconds=30, what="Postgres")
        options = {"bind": listens.replace(",", " "), "protected-mode": "no"}
        redis = stack.enter_context(valkey.running_valkey(place / "valkey", options=options))
        at = urlsplit(postgres.url)
        yield {
            "DATABASE_URL": urlunsplit(at._replace(netloc=at.netloc.replace("127.0.0.1", link.address))),
            "REDIS_URL": redis.url.replace("127.0.0.1", link.address),
            "DJANGO_SETTINGS_MODULE": "dpp_project.settings",
            "DPP_SERVICE": "reaper",
        }


@contextmanager
def host(link: Link) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*link.inside, sys.executable, "-c", HOST], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def stopped_in_the_middle(process: subprocess.Popen[str]) -> int:
    """Its session in Postgres."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(IN_THE_MIDDLE):
            return int(line.split()[-1])
    raise AssertionError("the host ended before the middle of its rebuild")


def lost(how: str, link: Link) -> tuple[float, float]:
    """Seconds from the loss to open money, and to the end of the lost host's session."""
    from budget import entries
    from budget.redis import scripts
    from budget.services import Available, balance
    from budget.verification import verify
    from budget.verification.verify import Verdict
    from dpp_project.jobs import registry, runner

    before = balance(tenant_id=TENANT)
    assert isinstance(before, Available)
    scripts.shared_scripts().client.flushall()
    with host(link) as process:
        session = stopped_in_the_middle(process)
        if how == "frozen":
            process.send_signal(signal.SIGSTOP)
        elif how == "unplugged":
            link.set("down")
        began = time.monotonic()

        def is_open() -> bool:
            runner.run_job_pass(registry.job_named("budget_gate_watch"))
            return isinstance(balance(tenant_id=TENANT), Available)

        wait_until(is_open, seconds=4 * LIMIT_SECONDS, pause_seconds=EVERY_SECONDS, what="open money")
        opened = time.monotonic() - began
        entries.top_up(tenant_id=TENANT, amount_micros=MEANWHILE_MICROS, reference=how, reason="", actor="proof")
        wait_until(lambda: not _lives(session), seconds=4 * LIMIT_SECONDS, pause_seconds=0.2, what="the session's end")
        gone = time.monotonic() - began
        if how == "frozen":
            process.send_signal(signal.SIGCONT)
        elif how == "unplugged":
            link.set("up")
        said, _ = process.communicate("\n", timeout=LIMIT_SECONDS)
        assert said.split() != [], "it came back and ended"
    assert balance(tenant_id=TENANT) == Available(before.balance_micros + MEANWHILE_MICROS)
    assert verify.verify_tenant_money(TENANT).verdict is Verdict.PROVED
    return opened, gone


def _lives(session: int) -> bool:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE pid = %s", [session])
        return bool(cursor.fetchone()[0])


def prepared() -> None:
    import django

    django.setup()
    from django.core.management import call_command

    from budget import entries
    from budget.rebuild import rebuild
    from tenants.models import Tenant

    call_command("migrate", verbosity=0)
    Tenant.objects.create(tenant_id=TENANT, display_name=TENANT)
    rebuild.rebuild_all()
    entries.top_up(tenant_id=TENANT, amount_micros=FUNDS_MICROS, reference="first", reason="", actor="proof")


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201  a program for a person's eyes


def main() -> int:
    with a_link() as link, services(link) as environ:
        os.environ |= environ
        prepared()
        ways = ("frozen", "hung", *(("unplugged",) if link.there else ()))
        for how in ways:
            opened, gone = lost(how, link)
            say(f"{how}: money open after {opened:.1f} s, its session gone after {gone:.1f} s")
            assert max(opened, gone) <= LIMIT_SECONDS, how
        from django.db import connection, connections

        connections.close_all()
        connection.close_pool()  # type: ignore[attr-defined]  # psycopg's alone
    if not link.there:
        say("hosts: SKIPPED without root: a cut link")
    report(cases=len(ways))
    return 0


if __name__ == "__main__":
    sys.exit(main())
