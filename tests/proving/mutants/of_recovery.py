"""Faults in the loops that mend what a death has left."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

REAPER: Final = "reaper/lease_reaper.py"
SWEEPER: Final = "reaper/reservation_sweeper.py"
RECONCILER: Final = "reaper/claim_reconciler.py"
REQUEUER: Final = "reaper/requeuer.py"
AUDITOR: Final = "reaper/hold_auditor.py"
LETTERS: Final = "reaper/dead_letters.py"

loops = In("integration/reaper/test_reaper_loops")
reaps = In("integration/reaper/test_reaper_leases")
sweeps = In("integration/reaper/test_sweeper_reservations")
claims = In("integration/reaper/test_reconciler_claims")
sends = In("integration/reaper/test_requeuer_sends")
audits = In("integration/reaper/test_hold_auditor_holds")
letters = In("integration/reaper/test_dead_letters_consumer")
expiries = In("integration/reaper/test_retention_runs")

MONEY_IS_CLOSED: Final = '    if money_is_closed():\n        return tally.report(waits_for="money")\n'
LOST: Final = "            if claimed is LOST:\n"
LOST_GOES_ON: Final = "            if claimed is None:\n"

MUTANTS: Final = (
    Mutant(
        "a reaper that lost moves the money",
        REAPER,
        LOST,
        LOST_GOES_ON,
        reaps("test_dpp_40_the_worker_that_claims_first_keeps_its_result"),
    ),
    Mutant(
        "the reaper claims while money is closed",
        REAPER,
        MONEY_IS_CLOSED,
        "",
        loops("test_while_money_is_closed_nothing_is_claimed"),
    ),
    Mutant(
        "a sweeper that lost moves the money",
        SWEEPER,
        LOST,
        LOST_GOES_ON,
        sweeps("test_dpp_41_a_worker_that_starts_first_keeps_the_run"),
    ),
    Mutant(
        "the sweeper claims while money is closed",
        SWEEPER,
        MONEY_IS_CLOSED,
        "",
        loops("test_while_money_is_closed_nothing_is_claimed"),
    ),
    Mutant(
        "a lost result is delivered",
        RECONCILER,
        "    return storage.shared().head(run.result_key) is None\n",
        "    return False\n",
        claims("test_dpp_42_a_result_that_is_gone_fails_at_the_minimum_fee"),
    ),
    Mutant(
        "a bucket that does not answer is a lost result",
        RECONCILER,
        '                tally.noted["waiting"] += 1\n                continue\n',
        "                result_lost = True\n",
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
        "    return None if claimed is LOST else claimed.claim\n",
        "    return claimed.claim if claimed is not LOST else Claim.stored(Run.objects.get(pk=run.pk), actor=ACTOR)\n",
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
        "    return any(found.kind in HOLD_FAULTS for found in proof.differences)\n",
        "    return False\n",
        audits("test_dpp_44_what_does_not_fit_is_made_right_to_the_micro"),
    ),
    Mutant(
        "an auditor that lost moves the money",
        AUDITOR,
        LOST,
        LOST_GOES_ON,
        audits("test_dpp_44_a_submit_that_marks_its_money_at_the_last_moment_keeps_its_hold"),
    ),
    Mutant(
        "a letter met again is decided again",
        LETTERS,
        "    if not is_new or run is None or not _is_waiting(run):\n",
        "    if run is None or not _is_waiting(run):\n",
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
        "reaper/tally.py",
        '            log.warning("row left to the next pass"',
        '            raise\n            log.warning("row left to the next pass"',
        loops("test_dpp_46_one_bad_row_does_not_stop_the_rest"),
    ),
    Mutant(
        "a run expires though its result stands",
        "reaper/retention.py",
        "        objects = bucket.delete_prefix(_prefix(run))\n",
        "        objects = 0 and bucket.delete_prefix(_prefix(run))\n",
        expiries("test_dpp_23_result_inputs_and_history_go_and_the_money_stays"),
    ),
)
