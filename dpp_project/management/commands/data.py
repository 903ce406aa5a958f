"""manage.py data list | due | clean --dry-run | disk"""

from dataclasses import replace
from functools import partial
from typing import Any, Final

from django.core.management.base import CommandParser

from dpp_project import clock, retention
from dpp_project.lifecycle import cleaning, measuring, page
from dpp_project.lifecycle.jobs import CLEANUP
from dpp_project.management.base import CommandAnswer, CommandRefused, OpsCommand, within_limit
from dpp_project.management.job_command import answer_of_job
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from dpp_project.retention import DataKind

COUNTED: Final = 1_000_000


class Command(OpsCommand):
    help = "What data there are and how long they stay; what is past its period; delete it now."
    changes = True

    def declare(self, parser: CommandParser) -> None:
        parser.add_argument(
            "do",
            choices=("list", "due", "clean", "disk"),
            help="list: every kind; due: rows that the next cleanup deletes; clean: delete them now; disk: room taken",
        )
        parser.add_argument("--kind", help="due, clean: of one kind alone")
        parser.add_argument("--limit", type=int, help=f"due, clean: at most so many rows (due: {COUNTED} of each kind)")
        parser.add_argument("--page", action="store_true", help="list: as docs/data.md")

    def run(self, *, dry_run: bool, **options: Any) -> CommandAnswer:
        if options["limit"] is not None:
            within_limit(options["limit"])
        kind = options["kind"]
        if kind is not None and kind not in cleaning.cleanup_clearings():
            known = ", ".join(cleaning.cleanup_clearings())
            said = f"{kind} is nothing that the daily cleanup deletes; those are {known}"
            raise CommandRefused(Refusal(ReasonCode.NOT_FOUND, said, "--kind"))
        match options["do"]:
            case "list":
                return _data_kinds_answer(as_page=options["page"])
            case "due":
                return _due(options["limit"] or COUNTED, kind)
            case "disk":
                return _disk()
        return _clean(options["limit"], kind, dry_run=dry_run)


def _data_kinds_answer(*, as_page: bool) -> CommandAnswer:
    if as_page:
        return CommandAnswer({"page": page.lifecycle_page()}, [page.lifecycle_page().rstrip("\n")])
    kinds = retention.data_kinds().values()
    lines = [f"{kind.name}: {page.how_long_data_stay(kind)}; by {kind.deleted_by}" for kind in kinds]
    return CommandAnswer({"kinds": [data_kind_document(kind) for kind in kinds]}, lines)


def _due(limit: int, kind: str | None) -> CommandAnswer:
    found = cleaning.count_due_rows(now=clock.now(), limit=limit, only=kind)
    lines = [f"{name}: {rows}{' or more' if rows == limit else ''} rows" for name, rows in found.items()]
    return CommandAnswer({"due": found, "counted_at_most": limit}, lines)


def _clean(limit: int | None, kind: str | None, *, dry_run: bool) -> CommandAnswer:
    """Under the daily job's own lease, with its report, and entered into the audit trail."""
    job = replace(
        CLEANUP, run_once=partial(cleaning.clean_now, only=kind), preview=partial(cleaning.preview_cleaning, only=kind)
    )
    return answer_of_job(job, limit=limit, dry_run=dry_run)


def _disk() -> CommandAnswer:
    disks = [
        {
            "host": host,
            "disk": disk,
            "used_bytes": found.used_bytes,
            "total_bytes": found.total_bytes,
            "bytes_a_day": found.bytes_a_day,
            "days_until_full": found.days_until_full,
            "alarm": found.alarms,
        }
        for (host, disk), found in measuring.disk_outlooks().items()
    ]
    kinds = [
        {"kind": size.kind, "day": size.day, "bytes": size.bytes, "objects": size.objects_count, "whole": size.is_whole}
        for size in measuring.data_sizes()
    ]
    lines = [
        *(f"{one['host'] or 'all'} {one['disk']}: {_room(one)}" for one in disks),
        *(f"{one['kind']}: {'' if one['whole'] else 'at least '}{one['bytes']} bytes" for one in kinds),
    ]
    return CommandAnswer({"disks": disks, "kinds": kinds}, lines or ["Nothing was measured yet (data_sizes)."])


def _room(disk: dict[str, Any]) -> str:
    total = "of an unknown total" if disk["total_bytes"] is None else f"of {disk['total_bytes']}"
    days = disk["days_until_full"]
    return f"{disk['used_bytes']} {total} bytes" + ("" if days is None else f", full in {days:.1f} days")


def data_kind_document(kind: DataKind) -> dict[str, Any]:
    return {
        "name": kind.name,
        **{where: list(getattr(kind, where)) for where in retention.PLACES},
        "states": kind.states,
        "made_by": kind.made_by,
        "read_by": kind.read_by,
        "days": kind.period_days,
        "setting": kind.setting or None,
        "until": kind.until,
        "why": kind.why,
        "deleted_by": kind.deleted_by,
    }
