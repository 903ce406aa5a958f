"""Faults in what people and programs are told of caps and spending: in whose zone, of which window, and of whom."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

zones = In("integration/runs/test_caps_in_zones")
submits = In("integration/runs/test_submit_caps")
ends = In("integration/runs/test_caps_ends")
money = In("integration/budget/test_caps_money")
api = In("integration/budget/test_caps_api")
alerts = In("integration/budget/test_cap_alerts")
console = In("integration/budget/test_caps_console")
account = In("integration/account/test_account_money")

RUN_OF_KEY: Final = "runs/submit/run_of_key.py"
HOLDING: Final = "runs/submit/hold_and_send.py"
ANSWER: Final = "runs/submit/answer.py"
COMMAND: Final = "budget/management/commands/caps.py"
KEY_PAGES: Final = "budget/account/key_pages.py"
MONEY_PAGES: Final = "budget/account/money_pages.py"
KEYS: Final = "templates/account/budget/keys.html"
VERIFY: Final = "budget/verification/verify_caps.py"

REFUSED: Final = zones("test_cap_03_a_refusal_has_the_figures_of_the_tenants_own_day")
NO_RUNS: Final = zones("test_cap_05_a_day_without_runs_is_shown_and_counted_by_the_tenants_date")
ENDED: Final = submits("test_cap_06_a_key_that_has_ended_leaves_its_caps_and_what_they_count")
DRIFTED: Final = money("test_cap_10_what_drifted_is_found_and_mended")
TABLE: Final = console("test_the_command_prints_a_table_that_adds_up_to_the_micro")
BY_COMMAND: Final = console("test_the_command_sets_shows_and_clears")
OF_EACH_KEY: Final = account("test_cap_13_keys_show_what_each_spent_in_each_window_and_whether_it_is_capped")
OF_NO_OTHER: Final = account("test_cap_15_a_key_without_keys_write_is_told_of_no_other_key")
IN_A_MONTH: Final = account("test_cap_15_usage_shows_a_month_in_numbers_and_as_a_picture")
FILES: Final = account("test_cap_15_the_files_of_a_month_are_the_apis")
BARS: Final = In("unit/test_cap_figures")("test_cap_16_a_bar_is_never_longer_than_its_cap")
UNKNOWN: Final = account("test_cap_16_pages_say_that_nothing_is_known_while_money_is_rebuilt")

MUTANTS: Final = (
    # Whose day it is.
    Mutant(
        "a refusal at a glance resets at midnight in Greenwich",
        RUN_OF_KEY,
        "cap_refusal(asked, reached, zone=zone,",
        "cap_refusal(asked, reached, zone='UTC',",
        REFUSED,
    ),
    Mutant(
        "a refusal by the hold resets at midnight in Greenwich",
        HOLDING,
        "cap_refusal(self._asked, refused, zone=zone,",
        "cap_refusal(self._asked, refused, zone='UTC',",
        REFUSED,
    ),
    Mutant(
        "a glance takes the date of Greenwich",
        "runs/reads/for_tenant.py",
        "SELECT (now() AT TIME ZONE known_zone(zone))::date, known_zone(zone),",
        "SELECT (now() AT TIME ZONE 'UTC')::date, known_zone(zone),",
        REFUSED + zones("test_cap_05_a_day_that_has_ended_there_refuses_nothing"),
    ),
    Mutant(
        "caps are shown on the date of Greenwich",
        "budget/caps/reading.py",
        "(now() AT TIME ZONE known_zone(tenants.zone))::date",
        "(now() AT TIME ZONE 'UTC')::date",
        NO_RUNS,
    ),
    Mutant(
        "a rebuild dates a scope in Greenwich",
        "budget/rebuild/scopes.py",
        "(now() AT TIME ZONE known_zone(zone))::date",
        "(now() AT TIME ZONE 'UTC')::date",
        NO_RUNS,
    ),
    Mutant(
        "a window's alerts end at midnight in Greenwich",
        "tenants/webhooks/cap_reached.py",
        'template="(now() AT TIME ZONE %(expressions)s)::date"',
        "template=\"(now() AT TIME ZONE 'UTC')::date\"",
        alerts("test_cap_11_a_window_ends_at_the_tenants_own_midnight"),
    ),
    Mutant(
        "after a move west the window that goes on is shown as over",
        "budget/caps/reading.py",
        "day = max(stand.today, seen.day or stand.today)",
        "day = stand.today",
        zones("test_cap_05_a_zone_that_is_moved_west_opens_no_window_twice"),
    ),
    Mutant(
        "a retry counts on the day that it is now",
        RUN_OF_KEY,
        "            lineage_id=run.lineage_id,\n            spend_day=run.spend_day,",
        "            lineage_id=run.lineage_id,\n"
        '            spend_day=for_tenant.today_and_run_of_key(run.tenant_id, "")[0],',
        In("integration/runs/test_submit_caps_races")(
            "test_cap_05_a_retry_after_midnight_counts_on_the_date_of_its_row"
        ),
    ),
    Mutant(
        "the date that a process has met goes back",
        "runs/submit/spend_dates.py",
        "max(day, self._dates.get(tenant_id, day))",
        "day",
        In("unit/test_spend_dates")("test_cap_05_the_date_a_process_has_met_never_goes_back"),
    ),
    Mutant(
        "every tenant's date is remembered for ever",
        "runs/submit/spend_dates.py",
        "            while len(self._dates) > self._limit:\n",
        "            while False:\n",
        In("unit/test_spend_dates")("test_cap_05_so_many_tenants_are_remembered_and_the_longest_unmet_is_forgotten"),
    ),
    # A refusal.
    Mutant(
        "a price as high as the cap is called higher",
        ANSWER,
        "if price_micros > cap.limit_micros:",
        "if price_micros >= cap.limit_micros:",
        submits("test_cap_03_a_price_as_high_as_the_cap_is_told_what_is_left_of_it"),
    ),
    Mutant(
        "a key's cap is called the tenant's",
        ANSWER,
        '''whose = "key's" if cap.scope == "key" else "tenant's"''',
        '''whose = "tenant's"''',
        submits("test_cap_03_a_price_as_high_as_the_cap_is_told_what_is_left_of_it"),
    ),
    Mutant(
        "a cap is refused before the balance",
        RUN_OF_KEY,
        "        refusal = self._refusal_at_a_glance()\n        if refusal is not None:",
        "        if (full := self._capped()) is not None:\n            return full\n"
        "        refusal = self._refusal_at_a_glance()\n        if refusal is not None:",
        submits("test_cap_03_the_balance_is_refused_before_a_cap"),
    ),
    Mutant(
        "a row that a cap refused leaves no tombstone for its hold",
        HOLDING,
        "        money.refund(tenant_id=row.tenant_id, run_id=str(row.run_id), counted=counted_of(row))\n",
        "",
        submits("test_cap_03_a_refusal_by_the_hold_leaves_nothing_either"),
    ),
    Mutant(
        "the end of a capped run asks Redis twice",
        "budget/services.py",
        "        lambda: scripts.shared_scripts().settle(\n",
        "        lambda: (counted.lineage_id is None or scripts.shared_scripts().client.ping())"
        " and scripts.shared_scripts().settle(\n",
        ends("test_cap_14_a_capped_runs_end_costs_the_trips_and_statements_of_any_other"),
    ),
    # Keys that have ended.
    Mutant(
        "a lineage whose key was revoked has no name",
        "budget/caps/rows.py",
        "lineage_id__in=list(lineages)).order_by",
        'lineage_id__in=list(lineages), status="ACTIVE").order_by',
        ENDED,
    ),
    Mutant(
        "the caps of a revoked key cannot be changed",
        "budget/api/caps_views.py",
        "tenant_id=principal_of(request).tenant_id, key_id=wanted).first()",
        'tenant_id=principal_of(request).tenant_id, key_id=wanted, status="ACTIVE").first()',
        ENDED,
    ),
    Mutant(
        "caps of a rotated key are called enforced without a look",
        "budget/caps/tenant_keys.py",
        "enforced = row is None or enforcing.put_in_force(row)",
        "enforced = True",
        api("test_a_rotation_without_redis_does_not_call_its_caps_enforced"),
    ),
    Mutant(
        "a lost change is called enforced because a later one was committed",
        "budget/caps/enforcing.py",
        "            return dict(seen.limits) == rows.limits_of(known)",
        "            return True",
        In("integration/budget/test_caps_setting")(
            "test_a_lost_change_is_not_called_enforced_though_a_later_one_was_committed"
        ),
    ),
    Mutant(
        "a key made by another has no maker in the trail",
        "budget/api/caps_views.py",
        "limits={} if body.caps is None else body.caps.changes(),\n            actor=owner_of(request)",
        'limits={} if body.caps is None else body.caps.changes(),\n            actor="owner:x"',
        api("test_a_new_key_begins_at_nothing_under_caps_that_are_in_force_before_it_is_shown"),
    ),
    Mutant(
        "a rotated key's caps are named by its oldest key",
        "budget/caps/rows.py",
        '.order_by("created_at", "key_id")\n    return {key.lineage_id',
        '.order_by("-created_at", "key_id")\n    return {key.lineage_id',
        In("integration/budget/test_caps_setting")("test_caps_of_a_rotated_key_are_those_of_its_successor"),
    ),
    Mutant(
        "a scope that cannot be counted is shown as none",
        "budget/caps/reading.py",
        "                return Unavailable(Closed.CAPS)\n    except",
        "                return {}\n    except",
        api("test_a_scope_that_is_lost_is_shown_as_unknown_and_never_as_unspent"),
    ),
    Mutant(
        "scopes beyond those counted at once are dropped by a rebuild",
        "budget/rebuild/scopes.py",
        "            yield from _items(some)\n            some = []",
        "            some = []",
        money("test_cap_09_more_scopes_than_are_counted_at_once_are_all_counted"),
    ),
    Mutant(
        "an agent is refused by a cap that it is not told of",
        "runs/mcp/tools.py",
        '("run_id", "cap", "trace_id")',
        '("run_id", "trace_id")',
        In("integration/mcp/test_mcp_tools")("test_cap_03_an_agent_is_told_of_the_cap_as_over_http"),
    ),
    Mutant(
        "a bar is longer than its cap",
        "budget/caps_page.py",
        "min(WHOLE, max(0, micros) * WHOLE // limit)",
        "max(0, micros) * WHOLE // limit",
        BARS,
    ),
    Mutant(
        "a cap that is full is not called so",
        "budget/caps_page.py",
        'if self.figures.left_micros == 0 else ""',
        'if self.figures.left_micros < 0 else ""',
        BARS,
    ),
    # Verification.
    Mutant(
        "a week's spending is never verified",
        VERIFY,
        "    for period in PERIODS:\n        used = cap",
        '    for period in ("day", "month", "total"):\n        used = cap',
        DRIFTED,
    ),
    Mutant(
        "all of a scope's spending is never verified",
        VERIFY,
        "    for period in PERIODS:\n        used = cap",
        "    for period in PERIODS[:3]:\n        used = cap",
        DRIFTED,
    ),
    Mutant(
        "limits of a change that Postgres has not are in order",
        VERIFY,
        "if caps.revision > cap.revision or (",
        "if (",
        DRIFTED,
    ),
    Mutant(
        "caps on their way to Redis are called lost",
        VERIFY,
        "        if not cap.is_new:\n",
        "        if True:\n",
        DRIFTED,
    ),
    Mutant(
        "a repair leaves what is counted where the balance is right",
        "budget/management/commands/money_verify.py",
        'proof.verdict is Verdict.DIFFERS and options["repair"]',
        'proof.drift_micros and options["repair"]',
        money("test_cap_10_the_command_mends_what_is_counted_where_the_balance_is_right"),
    ),
    # The command and the console.
    Mutant(
        "the command's table is cut to four decimals",
        COMMAND,
        "format_exact_usd(micros):>17",
        "format_usd(micros):>17",
        TABLE,
    ),
    Mutant(
        "the command forgets why",
        COMMAND,
        'reason=options["reason"],\n                dry_run',
        'reason="",\n                dry_run',
        BY_COMMAND,
    ),
    Mutant(
        "the command calls caps in force that are not",
        COMMAND,
        "[] if answer.enforced or dry_run else [NOT_ENFORCED]",
        "[]",
        console("test_the_command_shows_limits_while_nothing_else_is_known"),
    ),
    Mutant(
        "the console forgets why caps were set",
        "budget/admin.py",
        '                reason=form.cleaned_data["reason"],\n            )\n'
        "            if isinstance(answer, Refusal):\n"
        '                return self._tell(request, account, messages.ERROR, f"{answer.field}',
        '                reason="",\n            )\n'
        "            if isinstance(answer, Refusal):\n"
        '                return self._tell(request, account, messages.ERROR, f"{answer.field}',
        console("test_the_form_shows_what_stands_and_sets_all_four"),
    ),
    Mutant(
        "the console calls caps in force that are not",
        "budget/admin.py",
        "            if not answer.enforced:\n",
        "            if False:\n",
        console("test_the_form_says_that_caps_are_not_in_force_while_money_is_rebuilt"),
    ),
    Mutant(
        "a key's page in the console shows one window's spending for all",
        "budget/caps_page.py",
        "format_exact_usd(spending.spent[period])) for period",
        'format_exact_usd(spending.spent["month"])) for period',
        console("test_the_keys_page_shows_what_it_spent_in_each_window"),
    ),
    # The account.
    Mutant(
        "the list of keys shows today's spending for the week's",
        KEYS,
        "{{ line.spent.week|usd }}",
        "{{ line.spent.day|usd }}",
        OF_EACH_KEY,
    ),
    Mutant(
        "no key of the list is capped",
        KEY_PAGES,
        "and bool(spending[key.lineage_id].caps)",
        "and False",
        OF_EACH_KEY,
    ),
    Mutant(
        "a key is called uncapped while its caps are unknown",
        KEYS,
        "{% if line.spent %}{% if line.capped %}yes{% else %}none{% endif %}{% endif %}",
        "{% if line.capped %}yes{% else %}none{% endif %}",
        UNKNOWN,
    ),
    Mutant(
        "the tenant's caps stand for the key's own",
        MONEY_PAGES,
        '("This key", seen.caps.get(own, ()) if own else ())',
        '("This key", seen.caps.get(None, ()) if own else ())',
        account("test_cap_16_the_overview_tells_the_tenants_caps_from_the_keys_own"),
    ),
    Mutant(
        "the page of usage tells every key of all",
        MONEY_PAGES,
        "month=month.asked.start, own=reading.alone_seen(self.principal))",
        "month=month.asked.start)",
        OF_NO_OTHER,
    ),
    Mutant(
        "the account's FOCUS file tells every key of all",
        MONEY_PAGES,
        "focus_rows.usage_focus_rows(month.asked, UsagePeriod.DAY, own=own)",
        "focus_rows.usage_focus_rows(month.asked, UsagePeriod.DAY)",
        OF_NO_OTHER,
    ),
    Mutant(
        "the account's file of usage is by month",
        MONEY_PAGES,
        "csv_rows.usage_csv_rows(month.asked, UsagePeriod.DAY, reading",
        "csv_rows.usage_csv_rows(month.asked, UsagePeriod.MONTH, reading",
        FILES,
    ),
    Mutant(
        "the picture of a month leaves out what went back",
        "budget/account/pictures.py",
        "        net = max(0, total.net_micros)\n",
        "        net = max(0, total.charged_micros)\n",
        IN_A_MONTH,
    ),
    Mutant(
        "the account calls caps in force that are not",
        KEY_PAGES,
        'return "The caps are in force." if answer.enforced else NOT_IN_FORCE',
        'return "The caps are in force."',
        account("test_cap_01_caps_that_are_not_in_force_are_not_called_so"),
    ),
)
