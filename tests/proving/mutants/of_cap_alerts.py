"""Faults in what is told of spend caps: told twice, told wrongly, or never."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

ALERTS: Final = "budget/caps/alerts.py"
TOLD: Final = "tenants/webhooks/cap_reached.py"

alerts = In("integration/budget/test_cap_alerts")
MUTANTS: Final = (
    Mutant(
        "half a cap is told ten minutes late",
        "budget/jobs.py",
        "        name=alerts.JOB,\n"
        '        summary="Tells the webhooks of tenants where half and four fifths of a spend cap are used.",\n'
        "        every_seconds=30,\n",
        "        name=alerts.JOB,\n"
        '        summary="Tells the webhooks of tenants where half and four fifths of a spend cap are used.",\n'
        "        every_seconds=600,\n",
        In("unit/test_jobs_registry")("test_the_docs_say_how_often_a_job_comes"),
    ),
    Mutant(
        "what is held is told as used",
        ALERTS,
        "used, held = caps.used[period], caps.counted[period] - caps.used[period]",
        "used, held = caps.counted[period], caps.counted[period] - caps.used[period]",
        alerts("test_cap_11_half_and_four_fifths_of_what_was_charged_are_told_once_with_exact_figures"),
    ),
    Mutant(
        "half a cap is told one micro late",
        ALERTS,
        "if used * 100 >= limit * percent:",
        "if used * 100 > limit * percent:",
        alerts("test_cap_11_half_and_four_fifths_of_what_was_charged_are_told_once_with_exact_figures"),
    ),
    Mutant(
        "a refusal by half of the cap leaves its half untold",
        TOLD,
        'return {f"{period}:{percent}": f"{window}:{self.revision}"}',
        'return {f"{period}": f"{window}:{self.revision}"}',
        alerts("test_cap_11_a_refusal_by_what_is_held_comes_first_and_half_and_four_fifths_are_told_after_it"),
    ),
    Mutant(
        "a new window is not told",
        TOLD,
        'return {f"{period}:{percent}": f"{window}:{self.revision}"}',
        'return {f"{period}:{percent}": f"{self.revision}"}',
        alerts("test_cap_11_a_new_window_tells_anew_and_one_that_has_ended_not_at_all"),
    ),
    Mutant(
        "changed caps are not told anew",
        TOLD,
        'return {f"{period}:{percent}": f"{window}:{self.revision}"}',
        'return {f"{period}:{percent}": f"{window}"}',
        alerts("test_cap_11_a_change_of_the_caps_tells_anew_and_a_refusal_by_the_old_ones_tells_nothing"),
    ),
    Mutant(
        "a window that has ended is told",
        ALERTS,
        "or _has_ended(day, period, scope.today):",
        "or False:",
        alerts("test_cap_11_a_new_window_tells_anew_and_one_that_has_ended_not_at_all"),
    ),
    Mutant(
        "a refusal by a limit that is no more is told",
        ALERTS,
        "if scope is not None and scope.limits[reached.period] == reached.limit_micros:",
        "if scope is not None:",
        alerts("test_cap_11_a_change_of_the_caps_tells_anew_and_a_refusal_by_the_old_ones_tells_nothing"),
    ),
    Mutant(
        "caps that were changed after the look are told as they were",
        TOLD,
        "AND revision = %(revision)s AND",
        "AND",
        alerts("test_cap_11_caps_changed_between_the_look_and_the_telling_tell_nothing_of_the_old_ones"),
    ),
    Mutant(
        "a limit of nothing is half used from the beginning",
        ALERTS,
        "if not limit or day is None",
        "if limit is None or day is None",
        alerts("test_cap_11_a_limit_of_nothing_has_no_half_but_refuses"),
    ),
    Mutant(
        "two at once count twice what they told",
        TOLD,
        " AND NOT told @> %(mark)s",
        "",
        alerts("test_cap_11_two_at_once_tell_once_and_one_that_is_told_takes_no_lock"),
    ),
    Mutant(
        "what is told already waits for the row",
        TOLD,
        "found = rows.annotate(",
        "found = rows.select_for_update(of=('self',)).annotate(",
        alerts("test_cap_11_two_at_once_tell_once_and_one_that_is_told_takes_no_lock"),
    ),
    Mutant(
        "an alert that fails takes the refusal with it",
        ALERTS,
        "with transaction.atomic():  # in the caller's transaction a savepoint: what fails here leaves that whole",
        "if True:",
        alerts("test_cap_11_what_cannot_be_told_fails_no_refusal_and_the_next_one_tells_it"),
    ),
    Mutant(
        "a refusal whose row came back is remembered as told",
        ALERTS,
        "    if not beside_a_row:\n        told_lately().remember(what)",
        "    told_lately().remember(what)",
        alerts("test_cap_11_what_a_transaction_took_back_is_told_at_a_glance"),
    ),
    Mutant(
        "what a process told is remembered for ever",
        ALERTS,
        "return at is not None and self._now() - at < REMEMBERED_NANOSECONDS",
        "return at is not None",
        alerts("test_cap_11_refusals_at_a_glance_ask_postgres_once_and_again_half_a_minute_later"),
    ),
    Mutant(
        "each refusal at a glance asks Postgres",
        ALERTS,
        "if not beside_a_row and told_lately().knows(what):",
        "if False:",
        alerts("test_cap_11_refusals_at_a_glance_ask_postgres_once_and_again_half_a_minute_later"),
    ),
    Mutant(
        "the memory of what was told grows",
        ALERTS,
        "self._at.popitem(last=False)",
        "pass",
        alerts("test_cap_11_the_memory_of_a_process_is_bounded"),
    ),
    Mutant(
        "money behind a gate is taken as it is",
        ALERTS,
        "if mark.is_open() and mark.gate is None else None",
        "if mark.is_open() else None",
        alerts("test_cap_11_unknown_money_tells_nothing_wrong_and_all_of_it_when_it_is_known"),
    ),
    Mutant(
        "closed money is taken as it is",
        ALERTS,
        "if mark.is_open() and mark.gate is None else None",
        "if mark.gate is None else None",
        alerts("test_cap_11_unknown_money_tells_nothing_wrong_and_all_of_it_when_it_is_known"),
    ),
    Mutant(
        "a pass that ends early begins anew, and what lies behind is never looked at",
        ALERTS,
        "    after, skipped = _left_at(), SkippedRows(JOB)\n",
        "    after, skipped = None, SkippedRows(JOB)\n",
        alerts("test_cap_11_a_pass_that_could_not_reach_all_is_followed_by_one_that_goes_on_behind"),
    ),
    Mutant(
        "a rotated key is named as it was",
        TOLD,
        "ORDER BY created_at DESC, key_id LIMIT 1",
        "ORDER BY created_at, key_id LIMIT 1",
        alerts("test_cap_11_the_first_refusal_of_a_key_says_refusing_and_names_its_newest_key"),
    ),
)
