"""Faults in the lanes of a worker: who may have which slot, and what becomes of a message without one."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

LANES: Final = "dpp_project/celery_sqs/lanes.py"
STARTING: Final = "runs/worker/starting.py"
TRANSPORT: Final = "dpp_project/celery_sqs/transport.py"

slots = In("unit/test_celery_sqs_lanes")
real = In("integration/platform/test_sqs_worker_lanes")
submits = In("integration/runs/test_submit_lanes")
line = In("integration/runs/test_turns")
abuse = In("integration/runs/test_turns_abuse")
limit = In("integration/runs/test_turns_limit")

MUTANTS: Final = (
    Mutant(
        "a tenant with runs at work here has the express slots as well",
        LANES,
        "if self._free[Slot.EXPRESS] > 0 and not self._at_work[tenant_id]:",
        "if self._free[Slot.EXPRESS] > 0:",
        slots("test_dpp_87_whose_runs_are_at_work_here_gets_no_express_slot"),
    ),
    Mutant(
        "the queue of runs has the express slots as well",
        LANES,
        "            return Slot.GENERAL if general > 0 else None\n        if general > promised:",
        "            return Slot.GENERAL if general > 0 else Slot.EXPRESS\n        if general > promised:",
        slots("test_an_express_slot_is_none_for_the_queue_of_runs"),
    ),
    Mutant(
        "what busy tenants have waiting inside keeps all others out",
        LANES,
        "max(1, HELD_MOST - held)",
        "HELD_MOST - held",
        slots("test_dpp_87_a_flood_that_fills_all_general_slots_leaves_a_place_for_another_tenant"),
    ),
    Mutant(
        "a place is free again twice",
        LANES,
        "if (place := self._places.pop(tag, None)) is None:",
        "if (place := self._places.get(tag)) is None:",
        slots("test_a_place_is_free_again_once_and_for_whose_it_was_alone"),
    ),
    Mutant(
        "what waits for a place is made visible instead of sent anew",
        TRANSPORT,
        "                self._courier.submit(_send_again_in_thread, held)",
        '                self._courier.submit(receipt_handles.release, held.url, [held.message["ReceiptHandle"]])',
        real("test_dpp_87_what_waits_for_a_place_is_sent_again_and_never_becomes_a_dead_letter"),
    ),
    Mutant(
        "a worker that stops keeps what waits inside",
        TRANSPORT,
        "            self._return_held(queue)\n",
        "            pass\n",
        real("test_dpp_78_a_worker_that_stops_gives_back_what_waits_inside"),
    ),
    Mutant(
        "every run is express",
        "runs/submit/wake_worker.py",
        "cls.EXPRESS if open_runs < express_below() else",
        "cls.EXPRESS if ENV.DPP_EXPRESS_QUEUE_URL else",
        submits("test_dpp_87_a_tenants_first_four_open_runs_are_express_and_the_next_are_not"),
    ),
    Mutant(
        "a flood is drawn no further ahead than a single run",
        "runs/lua/draw_turn.lua",
        "math.max(now, last) + stride",
        "now + stride",
        line("test_dpp_87_who_comes_to_a_flood_waits_for_a_turn_and_not_for_the_flood"),
    ),
    Mutant(
        "who comes late is before all that ever started",
        "runs/lua/draw_turn.lua",
        "math.max(now, last) + stride",
        "math.max(now - 1000000000, last) + stride",
        line("test_dpp_87_who_comes_again_is_not_before_what_has_started_meanwhile"),
    ),
    Mutant(
        "what starts is not noted",
        "runs/lua/note_turn.lua",
        "if now and tonumber(now) >= tonumber(ARGV[1]) then return 0 end",
        "if now or not now then return 0 end",
        line("test_dpp_87_who_comes_to_a_flood_waits_for_a_turn_and_not_for_the_flood"),
    ),
    Mutant(
        "a weight counts for nothing",
        "runs/turns.py",
        "return STRIDE // share_weight",
        "return STRIDE // max(1, share_weight // 100)",
        line("test_dpp_87_floods_share_by_weight"),
    ),
    Mutant(
        "a priority takes turns that are others'",
        STARTING,
        "        if taken is not None and not turns.take_number(taken):\n",
        "        if False:\n",
        line("test_dpp_98_a_priority_goes_first_among_its_tenants_runs_and_costs_the_others_nothing"),
    ),
    Mutant(
        "a start is noted by the number of the run",
        STARTING,
        "StartedRun(found.run, found.in_pass,",
        "StartedRun(found.run, found.fair_pass,",
        abuse("test_dpp_98_a_priority_behind_a_flood_puts_no_newcomer_behind_the_flood"),
    ),
    Mutant(
        "the message of a parked run starts it out of turn",
        "runs/reads/for_worker.py",
        "stands IN ('PARKED', 'LIMITED') AND dead_lettered_at IS NOT NULL AND",
        "stands IN ('PARKED', 'LIMITED') AND",
        abuse("test_dpp_98_a_parked_runs_message_starts_it_in_no_turn_but_its_own"),
    ),
    Mutant(
        "what is woken draws behind all that its tenant ever drew",
        "runs/submit/next_of_key.py",
        ", behind=behind)",
        ")",
        abuse("test_dpp_98_the_next_of_a_key_waits_for_a_turn_and_not_for_all_that_its_tenant_ever_drew"),
    ),
    Mutant(
        "who has more in line than are counted sets its numbers back",
        "runs/submit/next_of_key.py",
        "    behind = waiting if waiting < turns.COUNTED_MOST else None",
        "    behind = waiting",
        abuse("test_dpp_98_who_has_more_in_line_than_are_counted_draws_behind_all_of_it"),
    ),
    Mutant(
        "what a tenant submits draws behind what it has parked",
        STARTING,
        "    if full.kept_back > turns.NEAR:\n",
        "    if False:\n",
        abuse("test_dpp_98_what_a_tenant_submits_beside_its_parked_runs_waits_for_a_turn"),
    ),
    Mutant(
        "who makes room looks without the lock",
        "runs/submit/next_of_key.py",
        "        lock()  # else",
        "        pass  # else",
        abuse("test_dpp_98_a_run_that_is_parked_while_the_room_is_made_is_woken_by_it"),
    ),
    Mutant(
        "a cancel wakes nobody",
        "runs/cancel/cancellation.py",
        "            _wake_next(line)\n",
        "",
        abuse("test_dpp_98_a_cancel_wakes_the_next_of_the_key_at_once"),
    ),
    Mutant(
        "an express run's lost message waits for a flood's",
        "reaper/requeuer.py",
        "    if Lane.EXPRESS.url == Lane.RUNS.url:\n",
        "    if True:\n",
        abuse("test_dpp_43_an_express_runs_lost_message_waits_for_nobody_elses_backlog"),
    ),
    Mutant(
        "an express run starts beyond its tenant's limit",
        STARTING,
        "    if found.has_limit:\n        turns.lock_tenant",
        "    if found.has_limit and found.fair_pass is not None:\n        turns.lock_tenant",
        limit("test_dpp_87_an_express_run_and_one_whose_message_died_are_kept_back_as_well"),
    ),
    Mutant(
        "a key without room keeps its tenant's place",
        STARTING,
        "    if full.of_key and found.has_limit:",
        "    if False:",
        limit("test_dpp_98_a_key_without_room_leaves_its_tenants_place_to_another_run"),
    ),
    Mutant(
        "a tenant's runs at work are counted without its lock",
        STARTING,
        "        turns.lock_tenant(tenant_id)\n",
        "",
        limit("test_dpp_87_two_that_count_at_once_do_not_both_take_the_last_place"),
    ),
    Mutant(
        "a key is counted without its lock",
        STARTING,
        "        turns.lock_key(tenant_id, key)\n",
        "",
        line("test_dpp_98_who_counts_a_key_lets_nobody_count_it_before_his_run_has_started"),
    ),
    Mutant(
        "what is parked is overtaken by what came later",
        STARTING,
        "    if found.concurrency_key is None or found.is_kept_back or found.priority is None:\n",
        "    if True:\n",
        line("test_dpp_98_what_was_parked_goes_before_what_came_later"),
    ),
    Mutant(
        "nobody wakes what a dead worker kept parked",
        "reaper/requeuer.py",
        "for tenant_id, key in turns.keys_to_wake()),\n",
        "for tenant_id, key in []),\n",
        line("test_dpp_98_a_worker_that_died_gives_the_place_back_with_its_run"),
    ),
    Mutant(
        "the requeuer asks about each key that anyone has named",
        "runs/turns.py",
        " AND count(*) FILTER (WHERE stands = 'AT_WORK') < coalesce(max(most.most_at_work), 1)\n",
        "\n",
        line("test_dpp_98_the_requeuer_asks_about_keys_with_room_alone"),
    ),
    Mutant(
        "an end wakes nobody",
        "runs/worker/execution.py",
        "    if started.concurrency_key is not None:\n",
        "    if False:\n",
        line("test_dpp_98_one_of_a_key_is_at_work_and_its_end_wakes_the_next"),
    ),
    Mutant(
        "a key has room while a run of it that died once is being finished",
        "runs/migrations/0008_run_turns.py",
        "    ELSIF NEW.dead_lettered_at IS NOT NULL AND NEW.status = 'QUEUED' THEN\n",
        "    ELSIF NEW.dead_lettered_at IS NOT NULL THEN\n",
        line("test_dpp_98_a_letters_run_is_at_work_under_its_key_until_it_has_ended"),
    ),
)
