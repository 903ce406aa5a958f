"""Faults in the loops that mend what a death has left."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

DRIVER: Final = "reaper/driver.py"
REAPER: Final = "reaper/lease_reaper.py"
SWEEPER: Final = "reaper/reservation_sweeper.py"
TALLY: Final = "reaper/tally.py"
DUE: Final = "runs/reads/for_recovery.py"
RECONCILER: Final = "reaper/claim_reconciler.py"
REQUEUER: Final = "reaper/requeuer.py"
AUDITOR: Final = "reaper/hold_auditor.py"
LETTERS: Final = "reaper/dead_letters.py"

leases = In("integration/platform/test_jobs_leases")
loops = In("integration/reaper/test_reaper_loops")
reaps = In("integration/reaper/test_reaper_leases")
sweeps = In("integration/reaper/test_sweeper_reservations")
claims = In("integration/reaper/test_reconciler_claims")
sends = In("integration/reaper/test_requeuer_sends")
audits = In("integration/reaper/test_hold_auditor_holds")
letters = In("integration/reaper/test_dead_letters_consumer")
expiries = In("integration/reaper/test_retention_runs")
backlogs = In("integration/reaper/test_recovery_backlog")
beats = In("integration/platform/test_jobs_beat")

MONEY_IS_CLOSED: Final = '    if money_is_closed():\n        tally.wait_for("money")\n        return\n'
MOVES_ALL_THE_SAME: Final = (
    "    from budget import services\n    services.{}(tenant_id=run.tenant_id, run_id=str(run.run_id){})\n"
)
REFUNDS_ALL_THE_SAME: Final = MOVES_ALL_THE_SAME.format("refund", "")
SETTLES_ALL_THE_SAME: Final = MOVES_ALL_THE_SAME.format("settle", ", charge_micros=5_000")
HEAD: Final = "        return storage.shared_run_storage().head(run.result_key) is None\n"

MUTANTS: Final = (
    Mutant(
        "a reaper that lost moves the money",
        REAPER,
        "    if claimed is not LOST:\n",
        SETTLES_ALL_THE_SAME + "    if claimed is not LOST:\n",
        reaps("test_dpp_40_the_worker_that_claims_first_keeps_its_result"),
    ),
    Mutant(
        "a loop claims while money is closed",
        DRIVER,
        MONEY_IS_CLOSED,
        "",
        loops("test_while_money_is_closed_nothing_is_claimed"),
    ),
    Mutant(
        "a sweeper that lost moves the money",
        SWEEPER,
        "    return transitions.claim_never_started(run=run, intent=intent, actor=ACTOR)\n",
        "    claimed = transitions.claim_never_started(run=run, intent=intent, actor=ACTOR)\n"
        + REFUNDS_ALL_THE_SAME
        + "    return claimed\n",
        sweeps("test_dpp_41_a_worker_that_starts_first_keeps_the_run"),
    ),
    Mutant(
        "a loop goes on claiming when money has closed meanwhile",
        DRIVER,
        "            if finished is Unfinished.WAITING and money_is_closed():\n",
        "            if money_is_closed is None:\n",
        loops("test_dpp_39_redis_gone_between_claim_and_settle_leaves_the_intent_and_the_rest_alone"),
    ),
    Mutant(
        "a lost result is delivered",
        RECONCILER,
        HEAD,
        "        return False\n",
        claims("test_dpp_42_a_result_that_is_gone_fails_at_the_minimum_fee"),
    ),
    Mutant(
        "a bucket that does not answer is a lost result",
        RECONCILER,
        HEAD,
        "        try:\n    " + HEAD + "        except Exception:\n            return True\n",
        claims("test_dpp_42_while_s3_does_not_say_the_row_waits_and_the_others_go_on"),
    ),
    Mutant(
        "a lost result costs what it would have",
        RECONCILER,
        "            run.minimum_fee_usd_micros, reserved_micros=",
        "            run.reservation_max_cost_usd_micros, reserved_micros=",
        claims("test_dpp_42_a_result_that_is_gone_fails_at_the_minimum_fee"),
    ),
    Mutant(
        "a reconciler that lost moves the money",
        RECONCILER,
        "    return claimed\n",
        "    if claimed is LOST:\n        from runs.claims import Claim\n"
        "        return Claimed(Claim.stored(Run.objects.get(pk=run.pk), actor=ACTOR))\n    return claimed\n",
        claims("test_dpp_34_a_reconciler_that_loses_the_claim_settles_nothing"),
    ),
    Mutant(
        "a reconciler settles what another decided anew",
        RECONCILER,
        "        claimed = transitions.reintend(",
        "        transitions.reintend(",
        claims("test_dpp_34_a_reconciler_that_loses_the_claim_settles_nothing"),
    ),
    Mutant(
        "a mere backlog is sent again",
        REQUEUER,
        "    if visible < count:\n",
        "    if visible is not None:\n",
        sends("test_dpp_43_a_backlog_is_not_sent_again_unless_15_minutes_late"),
    ),
    Mutant(
        "a requeuer that lost sends all the same",
        REQUEUER,
        "if _postponed(tally, run)]",
        "if _postponed(tally, run) is not None]",
        loops("test_dpp_46_a_row_that_a_rival_moved_is_left_to_it"),
    ),
    Mutant(
        "a hold that fits no run is left",
        AUDITOR,
        "            if proof.verdict is Verdict.DIFFERS:\n",
        "            if proof.verdict is Verdict.DIFFERS and proof.drift_micros > 0:\n",
        audits("test_dpp_44_what_does_not_fit_is_made_right_to_the_micro"),
    ),
    Mutant(
        "an auditor that lost moves the money",
        AUDITOR,
        "    return transitions.claim_abandoned(run=run, intent=intent, actor=ACTOR)\n",
        "    claimed = transitions.claim_abandoned(run=run, intent=intent, actor=ACTOR)\n"
        + REFUNDS_ALL_THE_SAME
        + "    return claimed\n",
        audits("test_dpp_44_a_submit_that_marks_its_money_at_the_last_moment_keeps_its_hold"),
    ),
    Mutant(
        "a letter met again is decided again",
        LETTERS,
        "    if not is_new or run is None or not run.waits_for_worker:\n",
        "    if run is None or not run.waits_for_worker:\n",
        letters("test_dpp_45_a_consumer_that_dies_leaves_the_first_letter_a_first_letter"),
    ),
    Mutant(
        "the first letter ends its run",
        LETTERS,
        "    if run.dead_lettered_at is None:\n",
        "    if run.dead_lettered_at == 0:\n",
        letters("test_dpp_45_the_first_letter_of_a_queued_run_sends_it_once_more"),
    ),
    Mutant(
        "a letter is deleted before its run is seen to",
        LETTERS,
        '            with tally.each(message["MessageId"]):\n',
        '            done.append(message["ReceiptHandle"])\n            with tally.each(message["MessageId"]):\n',
        letters("test_dpp_39_a_letter_that_cannot_be_sent_stays_in_the_queue"),
    ),
    Mutant(
        "one bad row stops the rest",
        TALLY,
        '            log.warning("row skipped"',
        '            raise\n            log.warning("row skipped"',
        loops("test_dpp_46_one_bad_row_does_not_stop_the_rest"),
    ),
    Mutant(
        "a run expires though its result stands",
        "reaper/retention.py",
        "        objects = storage.shared_run_storage().delete_prefix(_prefix(run))\n",
        "        objects = 0 and storage.shared_run_storage().delete_prefix(_prefix(run))\n",
        expiries("test_dpp_23_result_inputs_and_history_go_and_the_money_stays"),
    ),
    Mutant(
        "S3 that is away is asked for every row",
        TALLY,
        "            self.s3_is_away = True\n",
        "",
        backlogs("test_dpp_23_s3_in_a_black_hole_is_asked_once_in_a_pass"),
    ),
    Mutant(
        "claims that need S3 come before those that do not",
        RECONCILER,
        "        for_recovery.claimed_without_result(),\n        for_recovery.claimed_with_result(),\n",
        "        for_recovery.claimed_with_result(),\n        for_recovery.claimed_without_result(),\n",
        backlogs("test_dpp_42_600_claims_with_s3_in_a_black_hole_and_those_that_need_no_s3_end_in_the_same_pass"),
    ),
    Mutant(
        "one refused object counts as S3 being away",
        "runs/bucket/outages.py",
        "        if is_of_every_object(error):\n",
        "        if error is not None:\n",
        backlogs("test_dpp_23_one_refused_object_keeps_no_other_run_from_expiring"),
    ),
    Mutant(
        "an object that is not deleted stops the pass",
        "runs/bucket/storage.py",
        "class ObjectsNotDeleted(Exception):",
        "class ObjectsNotDeleted(OSError):",
        backlogs("test_dpp_23_one_refused_object_keeps_no_other_run_from_expiring"),
    ),
    Mutant(
        "a row that costs the connection ends the pass",
        TALLY,
        "            skipped_rows.keep_a_connection(error)\n",
        "",
        loops("test_dpp_46_a_row_that_costs_the_connection_each_time_stops_no_other"),
    ),
    Mutant(
        "a loop that lost a row goes on with it",
        DRIVER,
        "                tally.lost()\n                continue\n",
        "                tally.lost()\n",
        loops("test_dpp_46_a_row_that_a_rival_moved_is_left_to_it"),
    ),
    Mutant(
        "a row that failed comes first again",
        DRIVER,
        "            if row.pk in failed:\n",
        "            if row.pk is None:\n",
        loops("test_dpp_46_rows_that_failed_come_after_the_others_and_are_tried_again"),
    ),
    Mutant(
        "rows that failed ask an S3 that is away once more",
        DRIVER,
        "            if needs_s3 and tally.s3_is_away:\n                return\n",
        "",
        backlogs("test_dpp_23_rows_that_failed_before_ask_an_s3_in_a_black_hole_no_second_time"),
    ),
    Mutant(
        "a queue that refuses keeps the other lane's runs waiting",
        REQUEUER,
        "        if refusing >= {lane.url for lane in Lane}:\n",
        "        if refusing:\n",
        sends("test_dpp_46_a_queue_that_takes_nothing_postpones_ten_of_its_runs_and_the_other_lane_is_sent"),
    ),
    Mutant(
        "a row that failed is never tried again",
        DRIVER,
        "    yield from _tried_again(",
        "    _tried_again(",
        loops("test_dpp_46_rows_that_failed_come_after_the_others_and_are_tried_again"),
    ),
    Mutant(
        "a pass takes one batch and no more",
        DUE,
        "        if len(batch) < BATCH:\n            return\n",
        "        return\n",
        backlogs("test_dpp_40_a_backlog_is_drained_in_one_pass_batch_by_batch"),
    ),
    Mutant(
        "a batch begins where the one before began",
        DUE,
        "due.filter(behind, bound)",
        "due.filter(bound)",
        loops("test_dpp_46_a_row_that_stays_due_is_met_once_in_a_pass"),
    ),
    Mutant(
        "rows of one instant are left out between two batches",
        DUE,
        " | Q(pk__gt=last.pk))",
        ")",
        backlogs("test_dpp_40_a_backlog_is_drained_in_one_pass_batch_by_batch"),
    ),
    Mutant(
        "a claim is taken over again in the same pass",
        DUE,
        "due.filter(behind, bound)",
        "due.filter(behind)",
        claims("test_dpp_42_a_claim_taken_over_in_this_pass_is_not_taken_over_again_in_it"),
    ),
    Mutant(
        "a pass goes on after its deadline",
        TALLY,
        "        return not (self.seen and self.is_late())\n",
        "        return True\n",
        loops("test_dpp_46_a_pass_ends_at_its_deadline_and_the_next_goes_on"),
    ),
    Mutant(
        "a pass that begins late moves nothing",
        TALLY,
        "        return not (self.seen and self.is_late())\n",
        "        return not self.is_late()\n",
        loops("test_dpp_46_a_pass_that_begins_late_still_moves_one_row"),
    ),
    Mutant(
        "the auditor begins with the same tenants each time",
        "dpp_project/jobs/rotation.py",
        "        first = bisect(keys, self.after)\n",
        "        first = 0\n",
        audits("test_dpp_44_more_tenants_than_one_pass_takes_have_their_turn"),
    ),
    Mutant(
        "a job is taken over from a pass that lives",
        "dpp_project/jobs/leases.py",
        " WHERE job = %s AND beat_at < clock_timestamp() - make_interval(secs => %s)\n",
        " WHERE job = %s AND beat_at < clock_timestamp() - make_interval(secs => %s) / 2\n",
        leases("test_hrd_01_a_pass_that_is_silent_for_less_than_its_lease_keeps_the_job"),
    ),
    Mutant(
        "a takeover ends the leases of all jobs",
        "dpp_project/jobs/leases.py",
        " WHERE job = %s AND beat_at <",
        " WHERE job <> %s || 'x' AND beat_at <",
        leases("test_hrd_01_a_pass_that_is_silent_for_longer_is_taken_over"),
    ),
    Mutant(
        "a pass that was taken over takes its lease back",
        "dpp_project/jobs/leases.py",
        " WHERE id = ANY(%s) AND beat_at IS NOT NULL\nRETURNING id\n",
        " WHERE id = ANY(%s)\nRETURNING id\n",
        leases("test_hrd_01_a_pass_that_gets_on_is_renewed_and_one_that_was_taken_over_ends_at_its_next_row"),
    ),
    Mutant(
        "a pass that hangs is renewed for ever",
        "dpp_project/jobs/leases.py",
        "        hung = [row for row, one in running.items() if one.hangs()]\n",
        "        hung: list[int] = []\n",
        leases("test_hrd_01_a_pass_that_hangs_gives_its_job_up"),
    ),
    Mutant(
        "a long pass that gets on is taken for hung",
        "dpp_project/jobs/deadline.py",
        "        return monotonic() >= max(self._ends_at, self._progressed_at + HANG_SECONDS)\n",
        "        return monotonic() >= self._ends_at\n",
        leases("test_hrd_01_a_pass_that_hangs_gives_its_job_up"),
    ),
    Mutant(
        "a job that hung takes the room of another",
        "dpp_project/jobs/scheduler.py",
        "        make_room(len(registry.declared_jobs()) + len(self._hung) + BESIDE_JOBS)\n",
        "",
        leases("test_hrd_01_a_job_that_hangs_starts_anew_and_starves_no_other"),
    ),
    Mutant(
        "a host that froze with a lock keeps it",
        "dpp_project/stores/advisory_lock.py",
        "set_config('idle_session_timeout', %s, false)",
        "set_config('idle_session_timeout', %s, true)",
        In("integration/platform/test_advisory_lock")(
            "test_hrd_01_a_host_that_freezes_with_a_lock_keeps_it_for_a_bounded_time"
        ),
    ),
    Mutant(
        "jobs fight for eight connections",
        "dpp_project/jobs/scheduler.py",
        "        make_room(len(jobs) + BESIDE_JOBS)\n",
        "",
        beats("test_dpp_46_twenty_jobs_that_hang_delay_no_other_and_each_has_its_connection"),
    ),
)
