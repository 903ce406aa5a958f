"""Subtle faults in the books, a run's life, the jobs and the reaper: each leaves every single step right by itself."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

AUDIT: Final = "budget/verification/ledger_audit.py"
PASS: Final = "budget/verification/verify_pass.py"
VERIFY: Final = "budget/verification/verify.py"
EDGES: Final = "runs/transitions.py"
LETTERS: Final = "reaper/dead_letters.py"

audits = In("integration/budget/test_ledger_audit")
proofs = In("integration/budget/test_money_verify")
entries = In("integration/budget/test_budget_entries")
statements = In("integration/budget/test_budget_api")
tables = In("integration/budget/test_ledger_tables")
replays = In("integration/runs/test_idempotency_replay")
reads = In("integration/runs/test_runs_api_read")
lists = In("integration/runs/test_runs_api_list")
ends = In("integration/runs/test_transitions_ends")
edges = In("integration/runs/test_transitions_edges")
disputes = In("integration/runs/test_disputes_flow")
jobs = In("integration/platform/test_jobs_runner")
letters = In("integration/reaper/test_dead_letters_consumer")
redrives = In("integration/reaper/test_dead_letters_operators")
sends = In("integration/reaper/test_requeuer_sends")
backlogs = In("integration/reaper/test_recovery_backlog")
characters = In("integration/platform/test_http_characters")

MUTANTS: Final = (
    # The books.
    Mutant(
        "the law is proved of two moments",
        VERIFY,
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY",
        proofs("test_a_commit_between_two_readings_is_in_both_or_in_none"),
    ),
    Mutant(
        "a receipt excuses a run that nobody has claimed",
        VERIFY,
        "if run.claimed and run_id not in seen.holds]",
        "if run_id not in seen.holds]",
        proofs("test_a_receipt_counts_for_a_claimed_run_alone"),
    ),
    Mutant(
        "a tenant that never stands still has no drift",
        VERIFY,
        "        if not self.is_told:\n            return None\n",
        "        if not self.is_told:\n            return 0\n",
        audits("test_a_tenant_that_never_stands_still_has_no_drift_of_zero"),
    ),
    Mutant(
        "a busy tenant is counted on when the time of the pass is over",
        VERIFY,
        "        if deadline.is_over():\n            return Proof(tenant_id, Verdict.UNSETTLED)\n",
        "",
        proofs("test_dpp_56_a_tenant_that_moves_is_counted_once_in_a_pass_whose_time_is_over"),
    ),
    Mutant(
        "a pass that failed is told as no drift",
        "budget/metrics.py",
        "    if drift is None or (drift == 0",
        "    if (drift == 0",
        audits("test_a_pass_that_failed_is_not_told_as_no_drift"),
    ),
    Mutant(
        "the first tenants are proved again and again",
        PASS,
        'return "" if not turn or after == turn[-1] else after',
        'return ""',
        audits("test_every_tenant_has_its_turn_and_what_was_found_stands_until_its_next"),
    ),
    Mutant(
        "a tenant that cannot be compared takes all turns",
        PASS,
        "        after = tenant_id\n        current.compared += 1\n        try:\n"
        "            current.take(verify.verify_tenant_money(tenant_id))\n",
        "        current.compared += 1\n        try:\n"
        "            current.take(verify.verify_tenant_money(tenant_id))\n            after = tenant_id\n",
        audits("test_a_tenant_that_cannot_be_compared_takes_nobodys_turn"),
    ),
    Mutant(
        "a pass that failed forgets what was found",
        PASS,
        ', detail__has_key="standing")',
        ")",
        audits("test_a_pass_that_failed_forgets_nothing"),
    ),
    Mutant(
        "a difference is forgotten in the middle of its tenant",
        AUDIT,
        "replace(behind, wrong_micros=wrong)",
        "behind",
        audits("test_the_ledger_is_audited_in_stretches_that_go_on"),
    ),
    Mutant(
        "a charge of another tenant's run is in order",
        AUDIT,
        "owners.get(charge.run_id) != charge.tenant_id:",
        "charge.run_id not in owners:",
        audits("test_a_charge_of_an_open_run_and_one_of_another_tenant_are_found"),
    ),
    Mutant(
        "an entry of midnight counts to the day before",
        AUDIT,
        "found[at].created_at < snapshot.through:",
        "found[at].created_at <= snapshot.through:",
        audits("test_every_daily_sum_is_counted_again_from_the_first_entry"),
    ),
    Mutant(
        "what went back for a failure of ours is not counted",
        AUDIT,
        "adjusted.get(_returned(run), 0) + given_back\n",
        "adjusted.get(_returned(run), 0)\n",
        In("integration/runs/test_own_failures")("test_hrd_07_runs_and_ledger_agree_about_what_went_back"),
    ),
    Mutant(
        "any run may be given back",
        AUDIT,
        "if given_back and run.own_failure else",
        "if given_back else",
        In("integration/runs/test_own_failures")(
            "test_hrd_07_a_failure_given_back_in_another_amount_or_for_no_reason_is_found"
        ),
    ),
    Mutant(
        "what was taken too much is not counted back",
        AUDIT,
        " - adjusted.get(_excess(run), 0)",
        "",
        audits("test_what_the_platform_writes_agrees"),
    ),
    Mutant(
        "entries of one instant are skipped between two chunks",
        AUDIT,
        "Q(created_at__gt=at) | Q(entry_id__gt=row_id)",
        "Q(created_at__gt=at)",
        audits("test_entries_of_one_instant_are_all_audited"),
    ),
    Mutant(
        "the sum of a clock that was ahead stops every charge",
        "budget/migrations/0008_entries_after_a_clock.py",
        "    IF summed > clock_timestamp() THEN\n",
        "    IF false THEN\n",
        audits("test_a_sum_that_a_clock_ahead_had_written_stops_no_entry"),
    ),
    Mutant(
        "the ledger can be emptied",
        "budget/migrations/0010_ledger_never_emptied.py",
        "migrations.RunSQL([NEVER_EMPTIED],",
        "migrations.RunSQL([],",
        tables("test_dpp_54_the_ledger_is_never_emptied"),
    ),
    Mutant(
        "a charge whose run's data were deleted early is a difference",
        "runs/reads/for_audit.py",
        "timedelta(days=timing.TOMBSTONE_DAYS - 1)",
        "timedelta(days=timing.TOMBSTONE_DAYS + 30)",
        In("integration/reaper/test_retention_runs")("test_dpp_23_a_tombstone_stands_a_year_and_the_ledger_for_ever"),
    ),
    Mutant(
        "a day is summed up while one writes into it",
        "budget/daily_snapshots.py",
        "    if not _writers_have_ended():\n        return 0\n",
        "",
        audits("test_a_day_is_not_summed_up_while_one_writes_into_it"),
    ),
    Mutant(
        "a debt is paid whole or not at all",
        "budget/entries.py",
        "(total_micros < 0 and wanted.amount_micros < 0)",
        "total_micros < 0",
        entries("test_a_debt_is_paid_off_in_parts"),
    ),
    Mutant(
        "anyone may enter a ticket's reference",
        "budget/entries.py",
        '"ledger-loss:", TICKET_REFERENCE)',
        '"ledger-loss:")',
        entries("test_a_tickets_reference_is_the_tickets_alone"),
    ),
    Mutant(
        "each line of one kind adds its day up anew",
        "budget/statements.py",
        "            starts_anew = bisect_right(sums_end, last.created_at) < bisect_right(sums_end, it.created_at)\n",
        "            starts_anew = True\n",
        In("integration/budget/test_budget_api")("test_hrd_12_entries_of_one_kind_are_added_up_once_for_all_lines"),
    ),
    Mutant(
        "what stands between two lines counts for both",
        "budget/ledger.py",
        "    before = Q(created_at__lt=last.created_at) | Q(entry_id__lt=last.entry_id)\n",
        "    before = Q(created_at__lt=last.created_at) | Q(entry_id__lte=last.entry_id)\n",
        In("integration/budget/test_budget_api")("test_hrd_12_entries_of_one_kind_are_added_up_once_for_all_lines"),
    ),
    Mutant(
        "a page ends before an entry that is still written",
        "budget/statements.py",
        "found[limit - 1].created_at >= until",
        "found[limit].created_at >= until",
        statements("test_pages_join_over_an_entry_in_flight"),
    ),
    Mutant(
        "a writer is looked for among those that wait",
        "budget/ledger.py",
        "held.mode = 'RowExclusiveLock' AND held.granted",
        "held.mode = 'RowExclusiveLock' AND NOT held.granted",
        audits("test_what_is_being_written_bounds_what_is_settled"),
    ),
    # A run's life.
    Mutant(
        "a retry is sent to an address that answers 410",
        "runs/submit/run_of_key.py",
        "        if for_tenant.is_gone(run):\n",
        "        if run.result_key is not None and for_tenant.is_gone(run):\n",
        replays("test_dpp_06_between_the_retention_and_its_pass_a_retry_is_told_gone"),
    ),
    Mutant(
        "a run is there at the instant at which it is gone",
        "runs/reads/for_tenant.py",
        "return run.retention_until <= clock.now()",
        "return run.retention_until < clock.now()",
        reads("test_dpp_23_at_the_instant_of_its_retention_a_run_is_gone"),
    ),
    Mutant(
        "a list shows a run that is gone by its old status",
        "runs/reads/listing.py",
        '{f"{of}status": filters.status, f"{of}retention_until__gt": now}',
        '{f"{of}status": filters.status}',
        lists("test_dpp_26_filters_by_status_and_pack"),
    ),
    Mutant(
        "a claim taken over is as old as it was",
        EDGES,
        '    finalize_token=Given("token"),\n    finalize_claimed_at=Now(),\n    **_STEP,\n)\n\n\ndef retake',
        '    finalize_token=Given("token"),\n    **_STEP,\n)\n\n\ndef retake',
        ends("test_dpp_42_retake_keeps_the_intent_and_takes_the_token"),
    ),
    Mutant(
        "a charge that stands is given back as disputed",
        EDGES,
        "    Run.objects.filter(_SEEN, _COMMITTED, compared_row(money_state=MoneyState.DISPUTED)),\n",
        "    Run.objects.filter(_SEEN, _COMMITTED),\n",
        edges("test_dpp_34_an_edge_is_won_from_its_states_and_leaves_all_others_untouched"),
    ),
    Mutant(
        "the requeuer sends what the letters have taken",
        EDGES,
        ").filter(Q(dead_lettered_at__isnull=True) |",
        ").filter(Q(run_id__isnull=False) |",
        ends("test_dpp_43_a_send_that_is_not_ours_to_make_is_refused"),
    ),
    # The jobs.
    Mutant(
        "a pass ignores the limit that a person gave",
        "dpp_project/jobs/runner.py",
        "limit=limit or job.limit",
        "limit=job.limit",
        jobs("test_dpp_46_old_reports_are_deleted_by_the_daily_cleanup"),
    ),
    Mutant(
        "a clock that is set back keeps a job at work",
        "dpp_project/jobs/runner.py",
        "ended_at=max(clock.now(), started_at)",
        "ended_at=clock.now()",
        jobs("test_dpp_46_a_clock_that_is_set_back_leaves_a_report"),
    ),
    Mutant(
        "old reports are kept by a pass that begins late",
        "dpp_project/lifecycle/cleaning.py",
        "not ((self.batches or self.failed) and deadline.is_over())",
        "not deadline.is_over()",
        jobs("test_dpp_46_old_reports_go_though_the_pass_is_late"),
    ),
    # The reaper.
    Mutant(
        "a second message that died ends its run before its requeue",
        LETTERS,
        "return stored.sent_at > run.dead_lettered_at - CLOCKS_DIFFER",
        "return stored.sent_at is not None",
        letters("test_dpp_45_a_second_message_of_a_run_that_died_too_does_not_end_it"),
    ),
    Mutant(
        "another letter of a run is taken for the same",
        LETTERS,
        "    if is_new or stored.message_id == message_id:\n",
        "    if is_new or stored.run_id == letter.run_id:\n",
        letters("test_dpp_45_the_second_letter_ends_the_run_and_everything_goes_back"),
    ),
    Mutant(
        "a run that is being ended is sent again by hand",
        "reaper/redrive.py",
        " or run.finalize_stage is not None:",
        ":",
        redrives("test_dpp_45_nothing_is_sent_for_a_queued_run_that_is_being_ended"),
    ),
    Mutant(
        "one message that is refused keeps the others waiting",
        "reaper/requeuer.py",
        "        if asked - took:\n",
        "        took = set() if failed else took\n        if asked - took:\n",
        sends("test_dpp_43_one_message_that_is_refused_keeps_no_other_waiting"),
    ),
    Mutant(
        "rows that fail again and again take the whole pass",
        "reaper/driver.py",
        " or tally.errors - errors >= FAILED_AGAIN_MAX:",
        ":",
        backlogs("test_dpp_46_rows_that_fail_again_take_a_bounded_part_of_a_pass"),
    ),
    # The door.
    Mutant(
        "a NUL in an address is our own fault",
        "dpp_project/http/handlers.py",
        '    return isinstance(error, DataError) and "NUL" in str(error)\n',
        '    return isinstance(error, ValueError) and "NUL" in str(error)\n',
        characters("test_an_address_with_such_a_character_is_not_found"),
    ),
)
