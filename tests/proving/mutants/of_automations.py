"""Faults in what keeps an event to one task, an attempt to one run, and a rule to its bounds."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

TRANSITIONS: Final = "ops/automations/transitions.py"
RETENTION: Final = "ops/automations/retention.py"

chain = In("integration/automations/test_automation_chain")
edges = In("integration/automations/test_automation_edges")
deleted = In("integration/automations/test_deleted_runs")
emitting = In("integration/automations/test_automation_emitting")
faults = In("integration/automations/test_automation_faults")
filters = In("integration/automations/test_automation_filters")
refusals = In("integration/automations/test_automation_refusals")
retention = In("integration/automations/test_automation_retention")
rivals = In("race/test_automation_rivals")
rules = In("integration/automations/test_automation_rules")
sources = In("integration/automations/test_source_api")
templates = In("unit/test_automation_templates")
workspace = In("integration/automations/test_automation_workspace")
RULES_OF_THE_HOUSE: Final = In("unit/test_house_rules")("test_no_log_call_fails")

MUTANTS: Final = (
    Mutant(
        "an event that was seen is emitted again",
        "ops/automations/emitting.py",
        "    return None if is_new else Emitted(Emission.DUPLICATE)\n",
        "    return None\n",
        emitting("test_lif_05_a_repetition_moves_the_cursor_alone"),
    ),
    Mutant(
        "a seen row forgets how its event ended",
        "ops/automations/transitions.py",
        "event_id=event.event_id).update(outcome=outcome)",
        "event_id=event.event_id).count()",
        emitting("test_lif_05_a_failed_event_that_was_cleared_is_refused_until_a_person_forgets_it"),
    ),
    Mutant(
        "an event that succeeded is emitted again",
        "ops/automations/emitting.py",
        "        if event.outcome not in FAILED_AGAIN:\n",
        "        if event.outcome is None:\n",
        emitting("test_lif_05_what_did_not_fail_is_not_emitted_again"),
    ),
    Mutant(
        "each attempt may cost the whole ceiling",
        "ops/automations/tasks/buying.py",
        "    left = task.max_cost_usd_micros - task.charged_usd_micros\n",
        "    left = task.max_cost_usd_micros\n",
        chain("test_lif_02_the_ceiling_covers_all_attempts"),
    ),
    Mutant(
        "attempts of a task share a key",
        "ops/automations/tasks/submitting.py",
        '    key = f"{task.pk}:{attempt.attempt}"\n',
        '    key = f"{task.pk}:1"\n',
        chain("test_lif_02_the_ceiling_covers_all_attempts"),
    ),
    Mutant(
        "a run that stands is forgotten by a refusal",
        "ops/automations/tasks/buying.py",
        "    match submitting.standing_run(attempt):\n",
        "    match None:\n",
        chain("test_lif_02_a_run_that_stands_is_noted_before_a_refusal_ends_anything"),
    ),
    Mutant(
        "a rule's hour is counted without its lock",
        "ops/automations/tasks/bounds.py",
        "AutomationRule.objects.select_for_update(no_key=True).get(pk=rule_id)",
        "AutomationRule.objects.get(pk=rule_id)",
        rivals("test_lif_12_of_one_rule_one_counts_at_a_time"),
    ),
    Mutant(
        "a rule's day cap is not looked at",
        "ops/automations/tasks/bounds.py",
        "    if full is None:\n",
        "    if full is None or full.scope:\n",
        chain("test_lif_12_a_rules_day_cap_makes_events_wait"),
    ),
    Mutant(
        "a loop goes on",
        "ops/automations/tasks/bounds.py",
        "    if not thread:\n",
        "    if thread or not thread:\n",
        chain("test_lif_12_a_loop_is_broken_and_said"),
    ),
    Mutant(
        "a template names the process's own things",
        "ops/automations/rules/templates.py",
        "            if path[0] not in ROOTS:\n",
        "            if not path[0]:\n",
        templates("test_lif_12_what_is_no_template_is_refused_by_its_place"),
    ),
    Mutant(
        "a pass waits for an event that another session has locked",
        "ops/automations/transitions.py",
        "select_for_update(no_key=True, skip_locked=True)",
        "select_for_update(no_key=True)",
        rivals("test_lif_02_a_row_that_another_session_locks_holds_up_no_other"),
    ),
    Mutant(
        "an event that fails ends the pass",
        "ops/automations/tasks/dispatching.py",
        'log.exception("event not dispatched", event_pk=str(event_pk))',
        'log.exception("event not dispatched", event=str(event_pk))',
        (*RULES_OF_THE_HOUSE, *rivals("test_lif_02_a_row_that_another_session_locks_holds_up_no_other")),
    ),
    Mutant(
        "a refusal ends the attempt that another process has taken over",
        "ops/automations/transitions.py",
        "status=AttemptStatus.OPEN, lease_until=lease_until)",
        "status=AttemptStatus.OPEN)",
        rivals("test_lif_02_a_refusal_that_was_overtaken_ends_nothing"),
    ),
    Mutant(
        "a run that was bought after its attempt was refused goes on",
        "ops/automations/tasks/buying.py",
        "    if won is not CasOutcome.WON and AutomationAttempt",
        "    if won is CasOutcome.WON and AutomationAttempt",
        refusals("test_lif_02_what_a_frozen_buyer_bought_after_the_refusal_is_given_back"),
    ),
    Mutant(
        "a run of the tenant's own is taken for the attempt's",
        "ops/automations/tasks/submitting.py",
        "    if run is None or run.lineage_id != attempt.task.rule.lineage_id:\n",
        "    if run is None:\n",
        refusals("test_lif_02_a_run_that_the_tenant_made_under_an_attempts_name_is_not_the_attempts"),
    ),
    Mutant(
        "an attempt is refused while its slow submit goes on",
        "ops/automations/tasks/submitting.py",
        "    return NotHeldYet() if run.money_state",
        "    return None if run.money_state",
        refusals("test_lif_02_a_submit_that_is_slow_is_waited_for_by_whoever_is_refused"),
    ),
    Mutant(
        "a run that a person canceled is bought again",
        "ops/automations/tasks/buying.py",
        "    if said in _CANCELED:\n",
        "    if said in ():\n",
        refusals("test_lif_02_a_run_that_a_person_cancels_is_not_bought_again"),
    ),
    Mutant(
        "a rule's cap is another act's",
        "ops/automations/rules/rules.py",
        "    if enabled and (refused := _cap_follows(",
        "    if not enabled and (refused := _cap_follows(",
        rules("test_lif_12_of_two_acts_at_once_the_cap_follows_the_row_that_stands"),
    ),
    Mutant(
        "a rule's cap is raised before its row",
        "ops/automations/rules/rules.py",
        "_capped(rule, min(cap_micros, before_micros), actor)",
        "_capped(rule, max(cap_micros, before_micros), actor)",
        rules("test_lif_12_a_death_within_a_change_leaves_no_cap_above_the_rules"),
    ),
    Mutant(
        "a rule is enabled before its cap is in force",
        "ops/automations/rules/rules.py",
        "    if enabled and (refused := _capped(",
        "    if not enabled and (refused := _capped(",
        rules("test_lif_12_a_rule_whose_cap_cannot_be_set_is_not_enabled"),
    ),
    Mutant(
        "a task is ended, or tried again, beside its attempt at work",
        "ops/automations/tasks/buying.py",
        " or task.tries.filter(status__in=_AT_WORK).exists():\n",
        ":\n",
        chain("test_lif_02_a_look_that_comes_late_neither_begins_nor_ends_anything"),
    ),
    Mutant(
        "a task is ended by what was true before it moved",
        "ops/automations/tasks/buying.py",
        "finish_task(task.pk, version=task.version, ",
        "finish_task(task.pk, ",
        chain("test_lif_02_a_task_that_moved_since_it_was_read_is_not_ended"),
    ),
    Mutant(
        "a rule whose hour is over has all its events looked at",
        "ops/automations/tasks/dispatching.py",
        "                full.add(rule_id)\n",
        "                pass\n",
        chain("test_lif_12_a_flood_that_waits_delays_no_new_event_and_no_other_rules"),
    ),
    Mutant(
        "what a rule says may go to a place that there is not",
        "ops/automations/rules/rules.py",
        "    return found if isinstance(found, Refusal) else None\n",
        "    return None\n",
        rules("test_lif_11_a_place_for_messages_is_one_that_there_is"),
    ),
    Mutant(
        "an engine that stays away is waited for without end",
        "ops/automations/tasks/buying.py",
        "    if waited >= UNAVAILABLE_AT_MOST:\n",
        "    if waited < timedelta():\n",
        refusals("test_lif_02_an_engine_that_stays_away_is_said_and_ends_the_task_after_a_day"),
    ),
    Mutant(
        "nobody hears of an engine that stays away",
        "ops/automations/tasks/buying.py",
        "        if waited >= UNAVAILABLE_TOLD_AFTER:\n",
        "        if waited < timedelta():\n",
        refusals("test_lif_02_an_engine_that_stays_away_is_said_and_ends_the_task_after_a_day"),
    ),
    Mutant(
        "what waited for money for a day is ended by the first refusal that passes",
        "ops/automations/transitions.py",
        'Coalesce("unavailable_since", Now()) if unavailable else None',
        'Coalesce("unavailable_since", Now())',
        refusals("test_lif_02_what_waits_for_money_meanwhile_has_its_day_anew"),
    ),
    Mutant(
        "a run whose key went with its data is bought again",
        "ops/automations/tasks/buying.py",
        "    if attempt.unclear and (bought",
        "    if not attempt.unclear and (bought",
        refusals("test_lif_02_a_run_whose_key_went_with_its_data_is_not_bought_twice"),
    ),
    Mutant(
        "a lease that ran out leaves no doubt",
        "ops/automations/transitions.py",
        "When(lease_until__isnull=False, then=Value(value=True))",
        "When(lease_until__isnull=False, then=Value(value=False))",
        refusals("test_lif_02_a_run_whose_key_went_with_its_data_is_not_bought_twice"),
    ),
    Mutant(
        "a run that succeeded and was deleted is taken for failed",
        "ops/automations/tasks/ending.py",
        "    succeeded = run.intent_status == Status.COMPLETED",
        "    succeeded = run.status == Status.COMPLETED",
        refusals("test_lif_02_a_run_whose_key_went_with_its_data_is_not_bought_twice"),
    ),
    Mutant(
        "a run of a submit that failed is taken for the attempt's",
        "runs/reads/for_tenant.py",
        ".exclude(intent_reason_code__in=FREES_ITS_KEY)",
        "",
        refusals("test_lif_02_a_run_of_a_submit_that_failed_is_bought_again"),
    ),
    Mutant(
        "copies of a run's data stay",
        "runs/finish/data_deletion.py",
        "        ports.delete_copies(run_id)\n",
        "",
        deleted("test_dpp_92_inputs_result_and_message_go_with_the_run"),
    ),
    Mutant(
        "an end that was overtaken copies what was deleted",
        "ops/automations/tasks/ending.py",
        "    if run_id is not None and Run.objects.filter(",
        "    if run_id is None and Run.objects.filter(",
        deleted("test_dpp_92_an_end_that_read_the_envelope_before_copies_nothing_of_it"),
    ),
    Mutant(
        "a filter that takes too long takes those behind it along",
        "ops/automations/rules/filter_worker.py",
        "        said = limited_child.run_in_limited_child(in_time, seconds=WALL_SECONDS)\n",
        "        said = in_time()\n",
        filters("test_lif_12_a_filter_that_a_stranger_makes_slow_is_stopped"),
    ),
    Mutant(
        "each filter has a child of its own",
        "ops/automations/rules/filter_worker.py",
        "if len(filters) > 1 and",
        "if len(filters) > 99 and",
        filters("test_lif_12_an_events_filters_share_a_child_as_long_as_none_is_stopped"),
    ),
    Mutant(
        "a filter that is stopped is not said",
        "ops/automations/tasks/dispatching.py",
        "        if answer in filtering.STOPPED:\n",
        "        if answer is None:\n",
        filters("test_lif_12_a_filter_that_is_stopped_buys_nothing_and_is_said_once"),
    ),
    Mutant(
        "an event that fails is tried for ever",
        "ops/automations/tasks/dispatching.py",
        "again = faults.TRIES.after_failure(event.faults)",
        "again = faults.TRIES.after_failure(0)",
        faults("test_lif_02_what_a_flood_of_events_failed_by_is_said_once"),
    ),
    Mutant(
        "what is looked at without a fault counts on",
        "ops/automations/transitions.py",
        "waits_for=waits_for, rule_id=rule_id, faults=faults, **_automation_step_columns()",
        "waits_for=waits_for, rule_id=rule_id, faults=F('faults') + bool(faults), **_automation_step_columns()",
        faults("test_lif_02_an_event_whose_fault_is_mended_goes_on_and_counts_anew"),
    ),
    Mutant(
        "an event's fault is no alarm",
        "ops/automations/alarms.py",
        'events.values_list("source__name", flat=True)[:COUNTED_MAX]',
        'events.values_list("source__name", flat=True)[:0]',
        faults("test_lif_02_an_event_whose_fault_is_mended_goes_on_and_counts_anew"),
    ),
    Mutant(
        "a submit that fails for a day is tried on",
        "ops/automations/tasks/buying.py",
        "    if attempt.reason.startswith(faults.ERROR) and",
        "    if attempt.reason == '' and",
        faults("test_lif_02_an_attempt_whose_submit_fails_is_said_and_ends_the_task_after_a_day"),
    ),
    Mutant(
        "a run that was bought after faults still counts as failing",
        "ops/automations/transitions.py",
        "            unavailable_since=None,\n",
        "",
        faults("test_lif_02_an_attempt_that_failed_for_a_day_behind_its_purchase_has_its_run"),
    ),
    Mutant(
        "an event that moved is dispatched by what was read before",
        TRANSITIONS,
        "version=version, status=EventStatus.PENDING).update(\n            status=EventStatus.DISPATCHED",
        "status=EventStatus.PENDING).update(\n            status=EventStatus.DISPATCHED",
        edges("test_lif_02_a_row_that_moved_is_not_moved_by_what_was_read_before"),
    ),
    Mutant(
        "an event that moved is ended by what was read before",
        TRANSITIONS,
        "filter(pk=event_pk, version=version).exclude(",
        "filter(pk=event_pk).exclude(",
        edges("test_lif_02_a_row_that_moved_is_not_moved_by_what_was_read_before"),
    ),
    Mutant(
        "a task that moved is begun by what was read before",
        TRANSITIONS,
        "filter(pk=task_id, version=version, status=TaskStatus.PENDING)",
        "filter(pk=task_id, status=TaskStatus.PENDING)",
        edges("test_lif_02_a_row_that_moved_is_not_moved_by_what_was_read_before"),
    ),
    Mutant(
        "a task that moved has its next attempt by what was read before",
        TRANSITIONS,
        "pk=task_id, version=version, status=TaskStatus.IN_PROGRESS, attempts=attempt - 1",
        "pk=task_id, status=TaskStatus.IN_PROGRESS, attempts=attempt - 1",
        edges("test_lif_02_a_next_attempt_begins_once_and_behind_the_one_before"),
    ),
    Mutant(
        "an attempt has two submitters",
        TRANSITIONS,
        "filter(free, pk=attempt_pk, status",
        "filter(pk=attempt_pk, status",
        edges("test_lif_02_an_attempt_has_one_submitter_one_run_and_one_charge"),
    ),
    Mutant(
        "what a later task may read of earlier ones is not there",
        "ops/automations/tasks/dispatching.py",
        'roots["earlier"] = [_as_memory(one) for one in',
        'roots["earlier"] = [] and [_as_memory(one) for one in',
        chain("test_lif_09_a_later_task_of_the_thread_reads_the_earlier_results"),
    ),
    Mutant(
        "a task goes while its run goes on",
        RETENTION,
        "ended.filter(~_untold(), ~_awaited(), ~Exists(at_work))",
        "ended.filter(~_untold(), ~_awaited())",
        retention("test_lif_04_a_task_whose_run_goes_on_stays_with_its_event"),
    ),
    Mutant(
        "an event goes by when it was seen",
        RETENTION,
        "status=EventStatus.COMPLETED, completed_at__lt=cutoff",
        "status=EventStatus.COMPLETED, seen_at__lt=cutoff",
        retention("test_lif_04_days_count_from_the_end_and_not_from_the_begin"),
    ),
    Mutant(
        "a message that failed stays for ever",
        RETENTION,
        "AutomationMessage.objects.exclude(status=MessageStatus.PENDING)",
        "AutomationMessage.objects.filter(status=MessageStatus.SENT)",
        retention("test_lif_03_forty_days_leave_what_the_table_says"),
    ),
    Mutant(
        "an attempt finds in its workspace what the one before left",
        "ops/automations/tasks/buying.py",
        "    if task.workspace_id is not None:\n        written",
        "    if task.workspace_id is not None and attempt.attempt == 1:\n        written",
        workspace("test_lif_09_the_files_are_written_before_each_attempt"),
    ),
    Mutant(
        "what a command wrote is no part of its session log",
        "ops/automations/tasks/ending.py",
        '    if run.pack_type == "command" and isinstance(data, dict):\n',
        '    if run.pack_type != "command" and isinstance(data, dict):\n',
        chain("test_lif_09_a_session_log_holds_the_logs_and_what_a_command_wrote"),
    ),
    Mutant(
        "a task that failed has no session log",
        "ops/automations/tasks/ending.py",
        "            answer = answer_of_run(run)\n        except",
        "            answer = RunAnswer()\n        except",
        chain("test_lif_09_a_task_that_failed_keeps_its_last_runs_session_log"),
    ),
    Mutant(
        "a source's secret is shown again",
        "ops/automations/api/source_documents.py",
        "            settings=source.settings,\n",
        "            settings=source.settings | {'sealed': str(source.sealed_secrets)},\n",
        sources("test_lif_06_a_source_is_changed_paused_resumed_and_looked_at"),
    ),
)
