"""Workspaces against their tenants' notes: each file that was answered as written is in the home with its content, each
act was done at most once, and nothing lies at the driver or in the bucket that no row accounts for.

In the end every home is woken, hashed where it lies, and archived. What is judged is what the archive holds, unpacked.
"""

import json
import random
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import boto3
import psycopg
from psycopg import Connection
from psycopg.rows import dict_row

from dpp_project.devstack.process_identity import pids_carrying
from dpp_project.devstack.supervisor import WORKSPACES_MARK
from ops.workspaces.archive_store.frames import decompressed_frames
from ops.workspaces.drivers.base import DriverCorrupt
from ops.workspaces.drivers.process.records import Containers
from ops.workspaces.drivers.process.sandbox import INSIDE_UID
from ops.workspaces.drivers.process.volumes import Volumes
from tests.gear.tree_hash import tree_lines
from tests.gear.waiting import wait_until
from tests.proving.chaos.homes import FILES, LOG, Home, HomeKeepers
from tests.proving.chaos.stand import Stand

SETTLES_SECONDS: Final = 180.0
_UNSETTLED: Final = """
SELECT phase, desired_state, operation, op_step, count(*) FROM workspaces
 WHERE purged_at IS NULL AND NOT coalesce((error_info ->> 'is_terminal')::boolean, false)
   AND (operation <> 'NONE' OR NOT CASE desired_state WHEN 'DELETED' THEN deleted_at IS NOT NULL
                                                        ELSE desired_state = phase AND deleted_at IS NULL END)
 GROUP BY 1, 2, 3, 4
"""
_ROWS: Final = """
SELECT workspace_id::text, tenant_id, name, phase, desired_state, operation, error_info, error_count, archive_key,
       conditions, deleted_at IS NOT NULL AS is_deleted,
       (SELECT volume_name FROM workspace_volumes v WHERE v.workspace_id = w.workspace_id AND state = 'LIVE') AS volume
  FROM workspaces w
"""
_SWEEP: Final = """
import os
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dpp_project.settings")
import django
django.setup()
from dpp_project import clock
from ops.workspaces.host import hosting, sweeping
from ops.workspaces.upkeep import orphans
from dpp_project.process_env import ENV
driver = hosting.hosted_driver()
print("unknown at the driver:", sweeping.sweep_once(driver, driver_id=ENV.DPP_WORKSPACES_DRIVER_ID).unknown)
print("in the bucket:", orphans.look_for_orphans(now=clock.now(), limit=1000))
"""


@dataclass
class HomeFindings:
    homes: int = 0
    deleted: int = 0
    files: int = 0
    """That were answered as written, or by a run that ended well."""
    unanswered_there: int = 0
    removed: int = 0
    runs: int = 0
    archives: int = 0
    operations: int = 0
    taken_over: int = 0


def open_homes(connection: Connection[Any]) -> list[str]:
    return [
        f"{count} workspaces {phase}, to be {desired}, {operation} {step}".rstrip()
        for phase, desired, operation, step, count in connection.execute(_UNSETTLED)
    ]


# When all is settled.


def put_all_to_rest(stand: Stand, keepers: HomeKeepers) -> list[str]:
    """Each home is woken, hashed on disk, and archived. What is wrong on the way."""
    homes, chance = [home for home in keepers.homes if not home.is_deleted], random.Random(0)  # noqa: S311  no secret
    wrong: list[str] = []
    for home in homes:
        keepers.wake(home)
    _wait_for_all(stand, wrong, "after they were woken")
    live = {row["workspace_id"]: row for row in _rows(stand)}
    root = Path(stand.values["DPP_WORKSPACES_DIR"])
    wrong += _wrong_at_the_driver(root, live.values())
    for home in homes:
        volume = live[home.workspace_id]["volume"]
        if volume is None:
            wrong.append(f"{home.workspace_id} has no home, awake: {live[home.workspace_id]}")
            continue
        home.tree_at_the_end = _lines_as_inside(Volumes(root).home(volume))
        keepers.ask_to_be(home, "ARCHIVED", chance)
    _wait_for_all(stand, wrong, "after they were put to rest")
    return wrong


def _lines_as_inside(folder: Path) -> list[bytes]:
    """As tar saw it, which ran as the workspace does: its user has another number on the host."""
    outside, inside = (f" {uid}:{uid} ".encode() for uid in (folder.stat().st_uid, INSIDE_UID))
    return [line.replace(outside, inside, 1) for line in tree_lines(folder)]


def _wait_for_all(stand: Stand, wrong: list[str], when: str) -> None:
    def left() -> list[str]:
        with psycopg.connect(stand.values["DATABASE_URL"], connect_timeout=5) as connection:
            return open_homes(connection)

    try:
        wait_until(lambda: not left(), seconds=SETTLES_SECONDS, pause_seconds=0.5, what="the workspaces")
    except AssertionError:
        wrong.append(f"workspaces were not settled {SETTLES_SECONDS:.0f} s {when}: {left()}")


def _rows(stand: Stand) -> list[dict[str, Any]]:
    with psycopg.connect(stand.values["DATABASE_URL"], row_factory=dict_row) as connection:
        return connection.execute(_ROWS).fetchall()


def wrong_with_homes(
    stand: Stand, connection: Connection[Any], keepers: HomeKeepers, found: HomeFindings
) -> Iterator[str]:
    """`connection` answers rows as dictionaries."""
    swept = stand.python(_SWEEP)
    rows = {row["workspace_id"]: row for row in connection.execute(_ROWS)}
    s3 = _s3(stand)
    archives = connection.execute("SELECT * FROM workspace_archives").fetchall()
    found.homes, found.archives = len(keepers.homes), len(archives)
    events = Counter(
        {
            row["kind"]: row["count"]
            for row in connection.execute("SELECT kind, count(*) AS count FROM workspace_events GROUP BY kind")
        }
    )
    found.operations, found.taken_over = events["OperationCompleted"], events["OperationTakenOver"]
    yield from _wrong_with_rows(rows, keepers)
    yield from wrong_in_the_bucket(_objects(stand, s3), _uploads(stand, s3), archives)
    root = Path(stand.values["DPP_WORKSPACES_DIR"])
    yield from _wrong_at_the_driver(root, rows.values())
    if doomed := [one.name for one in (root / "doomed").iterdir()]:
        yield f"deleted volumes still lie there: {doomed}; {swept}"
    for home in keepers.homes:
        row = rows.get(home.workspace_id)
        if row is not None:
            done = _done_by_runs(connection, stand, s3, home)
            found.runs += len(home.orders)
            yield from (
                f"{home.workspace_id}: {what}" for what in _wrong_with_archive(stand, s3, row, home, done, found)
            )


def _wrong_with_rows(rows: dict[str, dict[str, Any]], keepers: HomeKeepers) -> Iterator[str]:
    known = {home.workspace_id: home for home in keepers.homes}
    yield from (f"the workspace {name} belongs to nobody: {rows[name]}" for name in rows.keys() - known.keys())
    for name, home in known.items():
        row = rows.get(name)
        if row is None or (row["tenant_id"], row["name"]) != (home.account.tenant_id, home.name):
            yield f"{name} was answered to {home.account.tenant_id} as {home.name}, and its row is {row}"
            continue
        wanted = ("DELETED", True) if home.is_deleted else ("ARCHIVED", False)
        if (row["desired_state"], row["is_deleted"]) != wanted or row["phase"] != wanted[0]:
            yield f"{name} is to be {wanted[0]}, and is {row}"
        if row["operation"] != "NONE" or row["error_info"] is not None or row["error_count"]:
            yield f"{name} is at rest, and has an operation or an error: {row}"


def _wrong_at_the_driver(root: Path, rows: Any) -> Iterator[str]:
    """Volumes are the rows' homes, containers those of workspaces that run, and processes theirs."""
    rows = list(rows)
    volumes, homes = {one.name for one in Volumes(root).all()}, {row["volume"] for row in rows if row["volume"]}
    sentinels = {name for name in volumes if not name.startswith("ws-")}
    if volumes - sentinels != homes:
        yield f"volumes: only at the driver {volumes - sentinels - homes}, only in rows {homes - volumes}"
    there = {record.name: record for record in Containers(root / "containers").all()}
    running = {f"ws-{row['workspace_id']}" for row in rows if row["phase"] == "RUNNING"}
    if there.keys() != running or not all(record.runs() for record in there.values()):
        yield f"containers: at the driver {sorted(there)}, in rows {sorted(running)}"
    inside = pids_carrying(WORKSPACES_MARK, str(root))
    if not running and inside:
        yield f"these processes are of workspaces, of which none runs: {inside}"


def wrong_in_the_bucket(
    objects: dict[str, int], uploads: list[tuple[str, str]], archives: list[dict[str, Any]]
) -> Iterator[str]:
    """Sizes by key, and keys with ids of open uploads."""
    rows = {row["archive_key"]: row for row in archives}
    yield from (f"the object {key} has no row" for key in objects.keys() - rows.keys())
    for key, row in rows.items():
        if row["state"] in {"VERIFIED", "SUPERSEDED"} and objects.get(key) != row["object_bytes"]:
            yield f"the archive {key} is {row['state']}, and {objects.get(key)} bytes of {row['object_bytes']}"
        if row["pinned_by"] is not None:
            yield f"the archive {key} is pinned by {row['pinned_by']}, which is over"
    for key, upload_id in uploads:
        if key not in rows or rows[key]["state"] == "VERIFIED":
            yield f"the upload {upload_id} of {key} is open, and its row is {rows.get(key)}"


def _wrong_with_archive(
    stand: Stand, s3: Any, row: dict[str, Any], home: Home, done: set[int], found: HomeFindings
) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="dpp-chaos-home-") as scratch:
        folder = Path(scratch) / "home"
        folder.mkdir()
        if row["archive_key"] is not None:
            body = s3.get_object(Bucket=stand.values["DPP_ARCHIVE_BUCKET"], Key=row["archive_key"])["Body"]
            try:
                _unpack(folder, body.iter_chunks(1 << 20))
            except (DriverCorrupt, AssertionError) as error:
                yield f"its archive {row['archive_key']} cannot be read: {error}"
                return
        elif home.written:
            yield f"{len(home.written)} files were written, and there is no archive"
            return
        lines = tree_lines(folder)
        if home.tree_at_the_end and lines != home.tree_at_the_end:
            differ = sorted(set(lines) ^ set(home.tree_at_the_end))[:4]
            yield f"its archive is another tree than the home that it was made of: {differ}"
        yield from wrong_with_tree(folder, home, done, found)


def wrong_with_tree(folder: Path, home: Home, done_by_runs: set[int], found: HomeFindings) -> Iterator[str]:
    """`done_by_runs` are numbers of acts whose run ended with exit code 0."""
    written, done = home.written | done_by_runs, home.done | done_by_runs
    there = {path.name: path for path in (folder / FILES).iterdir()} if (folder / FILES).exists() else {}
    for number in sorted(written - home.removing):
        if str(number) not in there:
            yield f"the file {number} was written, and is gone"
    for number in sorted(home.removed):
        if str(number) in there:
            yield f"the file {number} was removed, and is there again"
    for name, path in there.items():
        number = int(name.removesuffix(".part")) if name.removesuffix(".part").isdigit() else 0
        if number not in home.tried:
            yield f"the file {name} was never written"
        elif name.isdigit() and sha256(path.read_bytes()).digest() != sha256(home.content(number)).digest():
            yield f"the file {name} has another content than was written"
    names = {path.name for path in folder.iterdir()}
    if not names <= {FILES, LOG}:
        yield f"nobody made {names - {FILES, LOG}}"
    entered = Counter((folder / LOG).read_text(encoding="ascii").split()) if LOG in names else Counter()
    yield from (f"act {number} was done {count} times" for number, count in entered.items() if count > 1)
    yield from (f"act {number} was done, and is not in the log" for number in sorted(done) if not entered[str(number)])
    yield from (f"act {number} was never asked for" for number in entered.keys() - set(map(str, home.acts)))
    found.deleted += home.is_deleted
    found.files += len(written)
    found.removed += len(home.removed)
    found.unanswered_there += len({name for name in there if name.isdigit()} - set(map(str, written)))


def _unpack(folder: Path, packed: Iterator[bytes]) -> None:
    keep = ("--xattrs", "--xattrs-include=*", "--numeric-owner", "--same-permissions", "--same-owner", "--sparse")
    with subprocess.Popen(["tar", "-C", str(folder), *keep, "-x"], stdin=subprocess.PIPE) as tar:
        assert tar.stdin is not None
        for piece in decompressed_frames(packed):
            tar.stdin.write(piece)
    assert tar.returncode == 0, f"tar ended with {tar.returncode}"


def _done_by_runs(connection: Connection[Any], stand: Stand, s3: Any, home: Home) -> set[int]:
    """Of the acts by runs those that ended with exit code 0, by their results."""
    done = set()
    numbers = {order.run_id: number for number, order in home.orders.items() if order.run_id is not None}
    rows = connection.execute(
        "SELECT run_id::text, result_bucket, result_key FROM runs WHERE run_id = ANY(%s::uuid[])"
        " AND status = 'COMPLETED'",
        [list(numbers)],
    )
    for row in rows:
        body = s3.get_object(Bucket=row["result_bucket"], Key=row["result_key"])["Body"].read()
        if json.loads(body)["data"]["exit_code"] == 0:
            done.add(numbers[row["run_id"]])
    return done


def _objects(stand: Stand, s3: Any) -> dict[str, int]:
    return {
        one["Key"]: one["Size"]
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=stand.values["DPP_ARCHIVE_BUCKET"])
        for one in page.get("Contents", [])
    }


def _uploads(stand: Stand, s3: Any) -> list[tuple[str, str]]:
    answer = s3.list_multipart_uploads(Bucket=stand.values["DPP_ARCHIVE_BUCKET"])
    return [(one["Key"], one["UploadId"]) for one in answer.get("Uploads", [])]


def _s3(stand: Stand) -> Any:
    make: Callable[..., Any] = boto3.client
    return make(
        "s3",
        endpoint_url=stand.values["S3_ENDPOINT_URL"],
        region_name=stand.values["AWS_REGION"],
        aws_access_key_id=stand.values["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=stand.values["AWS_SECRET_ACCESS_KEY"],
    )
