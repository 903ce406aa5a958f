"""Faults in how caps are counted along a run's way, lost and made again."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

money: Final = In("integration/budget/test_caps_money")
submits: Final = In("integration/runs/test_submit_caps")
ends: Final = In("integration/runs/test_caps_ends")
changes: Final = In("integration/budget/test_caps_setting")
loss: Final = In("integration/budget/test_ledger_behind")
races: Final = In("integration/runs/test_submit_caps_races")

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        "caps: a finisher counts a run in the day that it is now",
        "runs/claims.py",
        "    return Counted(None if run.lineage_id is None else str(run.lineage_id), run.spend_day)\n",
        "    return Counted(None if run.lineage_id is None else str(run.lineage_id), date.today())\n",
        ends("test_cap_05_a_run_held_before_midnight_changes_the_windows_of_its_own_day_alone"),
    ),
    Mutant(
        "caps: a resume dates its row without having asked",
        "runs/transitions.py",
        'spend_day=Greatest(F("spend_day"), Given("not_before", DateField()))',
        'spend_day=Given("not_before", DateField())',
        submits("test_cap_05_only_a_row_that_is_not_held_is_dated_anew_and_only_later"),
    ),
    Mutant(
        "caps: the database's date is not the tenant's",
        "runs/transitions.py",
        "(SELECT greatest((now() AT TIME ZONE known_zone(zone))::date, ",
        "(SELECT greatest((now() AT TIME ZONE 'UTC')::date, ",
        submits("test_cap_05_the_database_dates_a_run_in_its_tenants_zone"),
    ),
    Mutant(
        "caps: a charge is entered without its date",
        "budget/ledger.py",
        "        SELECT gen_random_uuid(), tenant_id, run_id, 'CHARGE', -taken_micros, actor, lineage_id, spend_day\n",
        "        SELECT gen_random_uuid(), tenant_id, run_id, 'CHARGE', -taken_micros, actor, lineage_id, NULL::date\n",
        ends("test_cap_04_what_a_run_does_not_use_is_left_again_as_soon_as_it_is_settled"),
    ),
    Mutant(
        "caps: what a dispute gives back counts nowhere",
        "runs/operators/disputes.py",
        "                spend_day=spend_day,\n",
        "",
        ends("test_cap_08_a_dispute_that_is_refunded_returns_to_the_windows_of_its_run"),
    ),
    Mutant(
        "caps: a dispute gives back what was never counted",
        "runs/operators/disputes.py",
        "            lineage_id, spend_day = ledger.counted_charge_of(run_id)\n",
        "            lineage_id, spend_day = run.lineage_id, run.spend_day\n",
        ends("test_cap_08_a_dispute_of_a_charge_without_a_date_makes_no_room"),
    ),
    Mutant(
        "caps: a credit of a run moves the balance alone",
        "budget/entries.py",
        "            counted=_where_ledger_entry_counts(pending.entry),\n",
        "",
        ends("test_cap_08_a_dispute_that_is_refunded_returns_to_the_windows_of_its_run"),
    ),
    Mutant(
        "caps: a rebuild forgets the holds",
        "budget/rebuild/scopes.py",
        "                counted[period] += micros\n",
        "                counted[period] += 0\n",
        money("test_cap_09_a_settled_run_that_is_not_committed_is_held_again_until_its_finisher_settles"),
    ),
    Mutant(
        "caps: a rebuild takes today for the date of a scope",
        "budget/rebuild/scopes.py",
        "    found = spend.spent_of_scopes(asked.values(), or_newest=True)\n",
        "    found = spend.spent_of_scopes(asked.values())\n",
        money("test_cap_05_a_clock_that_was_set_back_opens_no_window_twice"),
    ),
    Mutant(
        "caps: a rebuild does not look at the dates of open runs",
        "budget/rebuild/scopes.py",
        "    return max([today[row.tenant_id], *held.get((row.tenant_id, row.lineage_id), {})])\n",
        "    return today[row.tenant_id]\n",
        money("test_cap_05_a_clock_that_was_set_back_opens_no_window_twice"),
    ),
    Mutant(
        "caps: a rebuild leaves the scopes out",
        "budget/rebuild/rebuild.py",
        "chain(beside, scope_items(tenant_id))",
        "chain(beside)",
        money("test_cap_09_a_lost_scope_is_refused_and_counted_anew[lost-key]"),
    ),
    Mutant(
        "caps: a hold brings no revision",
        "budget/services.py",
        "            least=least,\n",
        "",
        money("test_cap_07_a_change_that_died_before_redis_is_made_good_by_the_next_hold"),
    ),
    Mutant(
        "caps: what is on its way to a scope is called a difference",
        "budget/verification/verify.py",
        "charged=verify_caps.by_day(coming + taken)",
        "charged=verify_caps.by_day(taken)",
        money("test_cap_10_counters_and_books_agree_at_every_stage_and_after_every_rebuild"),
    ),
    Mutant(
        "caps: what is wrong behind the first turn of scopes is not told",
        "budget/verification/verify.py",
        "if turn == 0 or it.kind in OF_CAPS]",
        "if turn == 0]",
        money("test_cap_10_many_scopes_are_compared_in_turns_and_the_balance_is_told_once"),
    ),
    Mutant(
        "caps: a change that Postgres lost is taken for the next one",
        "budget/caps/enforcing.py",
        "(not answer.again or _is_of_postgres(row)):",
        "True:",
        changes("test_a_change_that_postgres_lost_is_not_taken_for_the_next_one"),
    ),
    Mutant(
        "caps: a cap whose row was lost goes on refusing",
        "budget/ledger_loss.py",
        "        client.unlink(name)\n",
        "        pass\n",
        loss("test_cap_09_a_cap_that_was_lost_with_the_ledger_refuses_no_more"),
    ),
    Mutant(
        "caps: a glance refuses by limits older than its caller knows",
        "budget/caps/glance.py",
        " or seen.revision < known:",
        ":",
        races("test_cap_07_a_raised_cap_that_died_before_redis_is_brought_by_the_next_submit"),
    ),
    Mutant(
        "caps: another key's retry asks for its own revision",
        "runs/submit/hold_and_send.py",
        "        if row.lineage_id == self._asked.lineage_id:\n            return self._asked.least\n",
        "        if True:\n            return self._asked.least\n",
        races("test_cap_06_another_keys_retry_counts_where_the_row_does"),
    ),
    Mutant(
        "caps: a refusal is told of the key that retried",
        "runs/submit/hold_and_send.py",
        "tell_refused(row.tenant_id, row.lineage_id, refused)",
        "tell_refused(row.tenant_id, self._asked.lineage_id, refused)",
        races("test_cap_06_another_keys_retry_counts_where_the_row_does"),
    ),
    Mutant(
        "caps: a glance refuses by a window that has ended",
        "budget/caps/glance.py",
        "        return 0, 0\n",
        "        pass\n",
        In("unit/test_cap_glance")("test_cap_03_a_window_that_has_ended_is_empty"),
    ),
)
