"""Faults in usage, in the days of spending it is read from, and in what compares the two with the ledger."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

days = In("integration/budget/test_spend_days")
usage = In("integration/budget/test_usage")
audits = In("integration/budget/test_ledger_audit")
console = In("integration/budget/test_budget_admin")

SNAPSHOTS: Final = "budget/daily_snapshots.py"
SPEND: Final = "budget/spend.py"
READING: Final = "budget/usage/reading.py"
AUDIT: Final = "budget/verification/days_audit.py"
PLAIN_SUM: Final = days("test_what_is_counted_is_the_plain_sum_whenever_it_is_summed_up")
TOTALS: Final = usage("test_the_totals_are_the_ledgers_in_every_grouping_and_form")
STANDS: Final = usage("test_a_stream_does_not_change_while_entries_are_added_and_summed_up")
CELLS: Final = usage("test_every_cell_of_a_focus_line_is_what_the_docs_say")
WRONG_DAYS: Final = audits("test_days_that_are_not_what_was_summed_up_are_found_and_named")

MUTANTS: Final = (
    # The days.
    Mutant(
        "two sums at once add the same entries",
        SNAPSHOTS,
        "        advisory_lock.lock_until_commit(_ONE_AT_A_TIME)\n",
        "",
        days("test_two_sums_at_once_add_each_entry_once"),
    ),
    Mutant(
        "what an older release summed up is in no day",
        SNAPSHOTS,
        "WHERE tenant_id = tenants.tenant_id AND has_spend_days), '-infinity') AS spent_since",
        "WHERE tenant_id = tenants.tenant_id), '-infinity') AS spent_since",
        days("test_what_an_older_release_summed_up_without_days_is_added_by_the_next_sum"),
    ),
    Mutant(
        "entries of runs that are gone are in no day",
        SNAPSHOTS,
        "LEFT JOIN ({sold}) sold",
        "JOIN ({sold}) sold",
        PLAIN_SUM,
    ),
    Mutant(
        "a run that is given back is counted again",
        SNAPSHOTS,
        "           count(*) FILTER (WHERE kind = 'CHARGE'),\n",
        "           count(*),\n",
        days("test_a_day_is_told_apart_by_pack_and_reason_and_counts_runs_and_tokens_once"),
    ),
    Mutant(
        "the tokens of a run that is given back are counted again",
        SNAPSHOTS,
        "coalesce(sum(sold.tokens) FILTER (WHERE kind = 'CHARGE'), 0)",
        "coalesce(sum(sold.tokens), 0)",
        days("test_a_day_is_told_apart_by_pack_and_reason_and_counts_runs_and_tokens_once"),
    ),
    Mutant(
        "a later sum of a date takes the place of the earlier",
        SNAPSHOTS,
        "spend_days.charged_usd_micros + EXCLUDED.charged_usd_micros",
        "EXCLUDED.charged_usd_micros",
        PLAIN_SUM,
    ),
    # What is counted.
    Mutant(
        "what was spent forgets the entries since the last sum",
        SPEND,
        "created_at >= owners.since AND created_at < 'infinity'",
        "created_at >= owners.since AND created_at < owners.since",
        PLAIN_SUM,
    ),
    Mutant(
        "what was spent counts what is summed up twice",
        SPEND,
        "created_at >= owners.since AND created_at < 'infinity'",
        "created_at >= '-infinity' AND created_at < 'infinity'",
        PLAIN_SUM,
    ),
    Mutant(
        "a week of spending begins on any day",
        SPEND,
        "date_trunc('week', spend_day) = date_trunc('week', today)",
        "spend_day > today - 7",
        PLAIN_SUM,
    ),
    Mutant(
        "runs without a key count for no tenant",
        SPEND,
        "FROM asked JOIN spent USING (tenant_id) WHERE asked.lineage_id IS NULL",
        "FROM asked JOIN spent USING (tenant_id) WHERE asked.lineage_id IS NULL AND spent.lineage_id IS NOT NULL",
        PLAIN_SUM,
    ),
    # Usage.
    Mutant(
        "usage leaves out what went back",
        READING,
        "CASE WHEN kind = 'ADJUST' THEN amount_usd_micros ELSE 0 END",
        "0",
        TOTALS,
    ),
    Mutant(
        "`to` is in the range",
        READING,
        "AND spend_day < %(end)s::date\n        {told}\n       ) parts",
        "AND spend_day <= %(end)s::date\n        {told}\n       ) parts",
        TOTALS,
    ),
    Mutant(
        "a stream takes in what is entered while it is read",
        READING,
        "AND entries.created_at < coalesce(%(until)s::timestamptz, 'infinity')",
        "AND entries.created_at < coalesce(%(until)s::timestamptz, 'infinity') + interval '1 day'",
        STANDS,
    ),
    Mutant(
        "a month's rows are told by day",
        READING,
        "CASE WHEN %(by_month)s::boolean THEN date_trunc('month', spend_day)::date ELSE spend_day END",
        "CASE WHEN %(by_month)s::boolean THEN spend_day ELSE spend_day END",
        usage("test_rows_are_told_apart_by_pack_reason_and_the_newest_key"),
    ),
    Mutant(
        "usage names the oldest key of a line",
        READING,
        'order_by("lineage_id", "-created_at", "-key_id")',
        'order_by("lineage_id", "created_at", "key_id")',
        usage("test_rows_are_told_apart_by_pack_reason_and_the_newest_key"),
    ),
    Mutant(
        "the running month is that of Greenwich",
        "budget/usage/ranges.py",
        "(now() AT TIME ZONE known_zone(zone))::date",
        "(now() AT TIME ZONE 'UTC')::date",
        usage("test_without_dates_it_is_the_running_month_of_the_tenants_zone"),
    ),
    Mutant(
        "a label is a formula",
        "budget/csv_lines.py",
        """return _FORMULA.sub(r"\\1'", value)""",
        "return value",
        usage("test_rows_are_told_apart_by_pack_reason_and_the_newest_key"),
    ),
    Mutant(
        "a FOCUS period begins at midnight in Greenwich",
        "budget/usage/ranges.py",
        "tzinfo=clock_of(self.zone)).astimezone(UTC)",
        "tzinfo=UTC)",
        usage("test_focus_periods_are_the_zones_and_end_with_the_range"),
    ),
    Mutant(
        "FOCUS leaves out what went back",
        "budget/usage/focus_rows.py",
        "    if row.credited_micros:\n",
        "    if False:\n",
        usage("test_focus_rows_add_up_and_hold_every_mandatory_column"),
    ),
    Mutant(
        "FOCUS consumed nothing",
        "budget/usage/focus_rows.py",
        '"ConsumedQuantity": runs',
        '"ConsumedQuantity": 0',
        CELLS,
    ),
    Mutant(
        "FOCUS counts runs for tokens",
        "budget/usage/focus_rows.py",
        '"x_Tokens": tokens',
        '"x_Tokens": runs',
        CELLS,
    ),
    Mutant(
        "FOCUS does not say why a run failed",
        "budget/usage/focus_rows.py",
        '"x_Reason": row.reason or None',
        '"x_Reason": None',
        CELLS,
    ),
    Mutant(
        "FOCUS leaves a column out",
        "budget/usage/focus_rows.py",
        '"ChargeDescription", "ChargeFrequency"),',
        '"ChargeDescription"),',
        (*CELLS, *usage("test_the_docs_name_every_focus_column_and_no_other")),
    ),
    Mutant(
        "a CSV line does not say whose key it is of",
        "budget/usage/csv_rows.py",
        "told = () if key is None else (key.key_id, csv",
        'told = () if key is None else ("", csv',
        usage("test_rows_are_told_apart_by_pack_reason_and_the_newest_key"),
    ),
    # The audit.
    Mutant("days that are wrong are not found", AUDIT, "if weighed != walk.at_sum:", "if False:", WRONG_DAYS),
    Mutant(
        "a date weighs as much as any other",
        AUDIT,
        'f"{lineage_id}|{day}|{what}"',
        'f"{lineage_id}|{what}"',
        WRONG_DAYS,
    ),
    Mutant(
        "a sum behind the walk is taken for a wrong day",
        AUDIT,
        "    if (None if last is None else last.through) != walk.through:\n        return\n",
        "",
        audits("test_a_daily_sum_that_is_written_behind_the_walk_is_left_to_the_next"),
    ),
    Mutant(
        "an older release cannot read where the walk is",
        "budget/verification/ledger_audit.py",
        ' if name != "days"}',
        "}",
        audits("test_a_place_survives_its_report"),
    ),
    # The console.
    Mutant(
        "the account's page shows net for charged",
        "budget/admin.py",
        "micros = (total.net_micros, total.charged_micros, total.credited_micros)",
        "micros = (total.charged_micros, total.net_micros, total.credited_micros)",
        console("test_an_account_shows_the_running_months_usage"),
    ),
    Mutant(
        "the account's picture leaves out what went back",
        "budget/admin.py",
        "charged = [format_plain_usd(total.charged_micros) for",
        "charged = [format_plain_usd(total.net_micros) for",
        console("test_an_account_shows_the_running_months_usage"),
    ),
    Mutant(
        "the account's page shows the dates of the writing",
        "budget/usage/overview.py",
        "lambda row: row.first))",
        "lambda _row: asked.end))",
        console("test_an_account_shows_the_running_months_usage"),
    ),
)
