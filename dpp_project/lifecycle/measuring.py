"""How much room the data take: by kind once a day, and how full each disk is.

Tables are asked of Postgres, objects listed as far as a pass goes (and then said to be at least so many), Redis asked
for its memory. A host measures its own disks (host_care.py). Each writes one row a local date, over the one before.
"""

import shutil
import socket
from collections import defaultdict
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from botocore.exceptions import BotoCoreError, ClientError
from django.conf import settings
from django.db import connection
from django.db.models import Max
from django.db.models.functions import Now

from dpp_project import retention
from dpp_project.aws import clients
from dpp_project.jobs import deadline
from dpp_project.jobs.registry import PassReport
from dpp_project.lifecycle import projecting
from dpp_project.lifecycle.cleaning import cleanup_moment, table_bytes
from dpp_project.lifecycle.models import DataSize, DiskUse
from dpp_project.lifecycle.projecting import DiskOutlook
from dpp_project.process_env import ENV
from dpp_project.stores import redis

DATABASE: Final = "Postgres"
REDIS: Final = "Redis"
PAGES_MAX: Final = 1_000
"""Of a bucket in one pass: a million objects."""
_GB: Final = 1_000_000_000


def local_date(at: datetime) -> date:
    return at.astimezone(ZoneInfo(settings.REPORT_TIME_ZONE)).date()


def measure_disks(*, now: datetime, limit: int) -> PassReport:
    """Once a date is enough, and again does no harm: the last measuring of a date stands."""
    del limit
    day = local_date(cleanup_moment(now))
    sizes = {kind.name: [table_bytes(kind), 0, 1] for kind in retention.data_kinds().values() if kind.tables}
    failed: dict[str, str] = {}
    for bucket in ("results", "archives"):
        try:
            for name, size in _objects(bucket):
                sizes.setdefault(name, [0, 0, 1])
                sizes[name] = [sizes[name][0] + size[0], sizes[name][1] + size[1], min(sizes[name][2], size[2])]
        except (BotoCoreError, ClientError) as error:
            failed[bucket] = type(error).__name__
    DataSize.objects.bulk_create(
        [
            DataSize(day=day, kind=name, bytes=size, objects_count=count, is_whole=bool(whole))
            for name, (size, count, whole) in sizes.items()
        ],
        update_conflicts=True,
        unique_fields=["day", "kind"],
        update_fields=["bytes", "objects_count", "is_whole"],
    )
    try:
        _note_stores(day)
    except redis.RedisError as error:
        failed["redis"] = type(error).__name__
    detail = {"failed": failed} if failed else {}
    return PassReport(seen=len(sizes), changed=len(sizes), errors=len(failed), detail=detail)


def measure_host(at: datetime, *, host: str | None = None) -> None:
    """The disks that this host's folders lie on, each once."""
    seen: set[int] = set()
    for path in _folders():
        if not path.is_dir() or (device := path.stat().st_dev) in seen:
            continue
        seen.add(device)
        disk = shutil.disk_usage(path)
        note_disk(
            local_date(at), host=host or socket.gethostname()[:128], disk=str(path),
            used=disk.total - disk.free, total=disk.total,
        )  # fmt: skip


def note_disk(day: date, *, host: str, disk: str, used: int, total: int | None) -> None:
    DiskUse.objects.bulk_create(
        [DiskUse(day=day, host=host, disk=disk, used_bytes=used, total_bytes=total, measured_at=Now())],
        update_conflicts=True,
        unique_fields=["day", "host", "disk"],
        update_fields=["used_bytes", "total_bytes", "measured_at"],
    )


def disk_outlooks() -> dict[tuple[str, str], DiskOutlook]:
    """Of each disk that was measured within a week: how full it is, and when it will be."""
    newest: date | None = DiskUse.objects.aggregate(newest=Max("day"))["newest"]
    if newest is None:
        return {}
    points: dict[tuple[str, str], list[DiskUse]] = defaultdict(list)
    # Of a disk whose last point is a week old the line needs no more; hosts that come and go leave rows for a quarter.
    oldest = newest - timedelta(days=projecting.DAYS + projecting.SOON_DAYS)
    for use in DiskUse.objects.filter(day__gt=oldest).order_by("day"):
        points[use.host, use.disk].append(use)
    return {
        place: projecting.project_disk([(use.day, use.used_bytes) for use in uses], uses[-1].total_bytes)
        for place, uses in sorted(points.items())
        if (newest - uses[-1].day).days < projecting.SOON_DAYS
    }


def data_sizes() -> list[DataSize]:
    """The newest of each kind, the largest first."""
    newest = DataSize.objects.order_by("kind", "-day").distinct("kind")
    return sorted(newest, key=lambda size: -size.bytes)


def _folders() -> list[Path]:
    named = [ENV.DPP_LOG_DIR, ENV.DPP_WORKSPACES_DIR if ENV.DPP_WORKSPACES_DRIVER == "process" else None, "/"]
    return [Path(name) for name in named if name is not None]


def _note_stores(day: date) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        (used,) = cursor.fetchone()
    total = None if ENV.DPP_DATABASE_DISK_GB is None else ENV.DPP_DATABASE_DISK_GB * _GB
    note_disk(day, host="", disk=DATABASE, used=used, total=total)
    found: Any = redis.redis_client().info("memory")
    room = int(found.get("maxmemory") or found.get("total_system_memory") or 0)
    note_disk(day, host="", disk=REDIS, used=int(found["used_memory"]), total=room or None)


def _objects(bucket: str) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """Of each kind its bytes, its objects, and whether the bucket was listed to its end."""
    name = ENV.DPP_BUCKET if bucket == "results" else ENV.DPP_ARCHIVE_BUCKET
    if bucket == "archives" and not {"DPP_ARCHIVE_BUCKET", "DPP_WORKSPACES_DRIVER"} & ENV.model_fields_set:
        return
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    whole = 1
    pages = clients.s3_client(ENV.S3_ENDPOINT_URL).get_paginator("list_objects_v2").paginate(Bucket=name)
    for number, listed in enumerate(pages, start=1):
        for one in listed.get("Contents", []):
            for kind in retention.kinds_of_object(one["Key"], bucket=bucket)[:1]:
                found[kind][0] += one["Size"]
                found[kind][1] += 1
        if number >= PAGES_MAX or deadline.is_over():
            whole = 0
            break
    for kind, (size, count) in found.items():
        yield kind, (size, count, whole)
