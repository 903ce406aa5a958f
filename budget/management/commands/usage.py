"""manage.py usage t_acme [--from 2026-11-01] [--to 2026-12-01] [--by day] [--group-by pack] [--format csv]"""

import json
from collections.abc import Iterator
from datetime import date
from typing import Any

from django.core.management.base import CommandParser

from budget.money import format_exact_usd
from budget.usage import csv_rows, documents, focus_rows, ranges
from budget.usage.documents import Usage, UsageAmounts
from budget.usage.grouping import key_fits
from budget.usage.ranges import UsagePeriod
from budget.usage.reading import UsageGroup
from dpp_project.management.base import CommandAnswer, CommandRefused, OpsCommand, unless_refused
from dpp_project.refusals import Refusal, invalid

FORMATS = ("table", "csv", "focus", "json")


class Command(OpsCommand):
    help = (
        "What a tenant's runs came to, by day or month, and by pack, key or reason of failure. Dates are those of the"
        " tenant's zone; without any it is the running month. A run counts on the date it was accepted, and what went"
        " back of it later on that date too; runs accepted by a release before 0.2 are in none (docs/usage.md)."
    )

    def declare(self, parser: CommandParser) -> None:
        parser.add_argument("tenant_id", help="whose usage")
        parser.add_argument("--from", dest="start", metavar="DATE", help="the first date, such as 2026-11-01")
        parser.add_argument("--to", dest="end", metavar="DATE", help="the date behind the last one; at most 400 days")
        parser.add_argument("--by", choices=list(UsagePeriod), default=UsagePeriod.DAY, help="a row for each of these")
        parser.add_argument("--group-by", choices=list(UsageGroup), help="and for each of these")
        parser.add_argument("--metadata-key", help="with --group-by metadata, or --format focus, which has it as a tag")
        parser.add_argument(
            "--format",
            choices=FORMATS,
            default="table",
            help="table: for people, in USD; csv: the rows and their total; focus: the columns of FOCUS 1.2, which have"
            " a row for each pack, key and reason; json: as the API answers",
        )

    def run(self, *, dry_run: bool, **options: Any) -> CommandAnswer:
        del dry_run
        period = UsagePeriod(options["by"])
        group = None if options["group_by"] is None else UsageGroup(options["group_by"])
        asked = _given(
            ranges.usage_range(
                options["tenant_id"], start=_date("--from", options["start"]), end=_date("--to", options["end"])
            )
        )
        if options["format"] == "focus" and group is not None:
            raise CommandRefused(invalid("--group-by", "leave it out: FOCUS rows are told apart by all three"))
        key = options["metadata_key"]
        if options["format"] != "focus":
            _given(key_fits(group, key))
        found = _given(documents.usage_document(asked, period, group, metadata_key=key))
        document = found.model_dump(mode="json", by_alias=True)
        match options["format"]:
            case "csv":
                lines = [
                    line.rstrip("\r\n") for line in csv_rows.usage_csv_rows(asked, period, group, metadata_key=key)
                ]
            case "focus":
                lines = [line.rstrip("\r\n") for line in focus_rows.usage_focus_rows(asked, period, metadata_key=key)]
            case "json":
                lines = [json.dumps(document, ensure_ascii=False, indent=2)]
            case _:
                lines = list(_usage_table_lines(found))
        begins = "It has none yet" if found.begins is None else f"It begins on {found.begins}"
        remark = f"Usage of {found.tenant_id} from {found.from_} to before {found.to} ({found.zone}). {begins}."
        return CommandAnswer(document, lines, [remark])


def _date(field: str, text: str | None) -> date | None:
    try:
        return None if text is None else ranges.read_date(text)
    except ValueError as error:
        raise CommandRefused(invalid(field, str(error))) from None


def _given(answer: Any) -> Any:
    """The arguments of the command have dashes."""
    if isinstance(answer, Refusal) and answer.field in {"from", "to", "metadata_key"}:
        answer = Refusal(answer.reason, answer.detail, f"--{answer.field.replace('_', '-')}")
    return unless_refused(answer)


def _usage_table_lines(found: Usage) -> Iterator[str]:
    names = {
        row.group: (row.group or "-") + (f" {row.key.label}" if row.key and row.key.label else "") for row in found.rows
    }
    width = max((len(name) for name in names.values()), default=1)
    columns = "  ".join(f"{name:>14}" for name in ("charged", "credited", "net, USD"))
    yield f"{'period':10}  {'group':{width}}  {columns}  {'runs':>9}  {'tokens':>12}"
    for row in found.rows:
        yield _usage_amounts_line(row.period, f"{names[row.group]:{width}}", row)
    yield _usage_amounts_line("total", " " * width, found.totals)


def _usage_amounts_line(first: str, name: str, of: UsageAmounts) -> str:
    amounts = (of.charged_usd_micros, of.credited_usd_micros, of.net_usd_micros)
    shown = "  ".join(f"{format_exact_usd(micros):>14}" for micros in amounts)
    return f"{first:10}  {name}  {shown}  {of.runs:9,}  {of.tokens:12,}"
