"""Faults in the life of a run: who may move a row, how it begins, is executed, is canceled and ends."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

TRANSITIONS: Final = "runs/transitions.py"
FINALIZATION: Final = "runs/finish/finalization.py"
RUN_OF_KEY: Final = "runs/submit/run_of_key.py"
HOLD_AND_SEND: Final = "runs/submit/hold_and_send.py"
IDEMPOTENCY: Final = "runs/submit/key_lock.py"
EXECUTION: Final = "runs/worker/execution.py"
STARTING: Final = "runs/worker/starting.py"
DELIVERY: Final = "runs/worker/store_result.py"

edges = In("integration/runs/test_transitions_edges")
ends = In("integration/runs/test_transitions_ends")
leases = In("integration/runs/test_lease_keeper")
cancels = In("integration/runs/test_cancel_runs")
claims = In("integration/reaper/test_reconciler_claims")
replays = In("integration/runs/test_idempotency_replay")
rivals = In("race/test_submit_rivals")
locks = In("race/test_submit_locks")
executed = In("integration/runs/test_execution_runs")
outages = In("crash/test_execution_outages")

EACH_EDGE: Final = "test_dpp_34_an_edge_is_won_from_its_states_and_leaves_all_others_untouched"

MUTANTS: Final = (
    # Who may move a row.
    Mutant(
        "an edge forgets the version it saw",
        TRANSITIONS,
        '_SEEN: Final = Q(run_id=Given("run_id"), version=Given("version"))\n',
        '_SEEN: Final = Q(run_id=Given("run_id")) & (Q(version=Given("version")) | Q(version__gte=0))\n',
        edges("test_dpp_08_a_resumed_row_is_neither_dropped_nor_reserved_by_who_had_it"),
    ),
    Mutant(
        "an edge moves a claimed row",
        TRANSITIONS,
        "_UNCLAIMED: Final = Q(finalize_stage__isnull=True)\n",
        "_UNCLAIMED: Final = Q()\n",
        edges(f"{EACH_EDGE}[claim_worked-claimed]", f"{EACH_EDGE}[claim_lease_expired-claimed]"),
    ),
    Mutant(
        "a worker starts a run whose money is not held",
        TRANSITIONS,
        "_START: Final = CompiledUpdate(\n    Run.objects.filter(_SEEN, _WAITING),\n",
        "_START: Final = CompiledUpdate(\n    Run.objects.filter(_SEEN, _UNCLAIMED),\n",
        edges("test_dpp_30_a_row_whose_money_is_not_held_is_not_started"),
    ),
    Mutant(
        "a dead lease is revived",
        TRANSITIONS,
        "   AND runs.finalize_stage IS NULL AND runs.lease_expires_at >= statement_timestamp()\n",
        "   AND runs.finalize_stage IS NULL\n",
        leases("test_dpp_31_a_dead_lease_is_never_revived"),
    ),
    Mutant(
        "a claimed run's lease is renewed",
        TRANSITIONS,
        "   AND runs.finalize_stage IS NULL AND runs.lease_expires_at",
        "   AND runs.lease_expires_at",
        edges("test_dpp_31_renew_leaves_what_is_not_ours_or_over"),
    ),
    Mutant(
        "a worker claims with another's lease",
        TRANSITIONS,
        'Run.objects.filter(_SEEN, _PROCESSING, lease_token=Given("lease_token"))',
        'Run.objects.filter(_SEEN, _PROCESSING, Q(lease_token=Given("lease_token")) | Q(version__gte=0))',
        edges("test_dpp_34_a_worker_without_the_lease_claims_nothing"),
    ),
    Mutant(
        "the reaper takes a live lease",
        TRANSITIONS,
        "Run.objects.filter(_SEEN, _PROCESSING, lease_expires_at__lt=Now())",
        "Run.objects.filter(_SEEN, _PROCESSING)",
        edges("test_dpp_40_a_live_lease_is_not_reaped"),
    ),
    Mutant(
        "the sweeper takes a run of this minute",
        TRANSITIONS,
        'created_at__lt=_ago("reservation")',
        'created_at__lt=_from_now("reservation")',
        edges("test_dpp_41_a_run_younger_than_an_hour_is_not_swept"),
    ),
    Mutant(
        "a submit is called abandoned while it runs",
        TRANSITIONS,
        'updated_at__lt=_ago("untouched")',
        'updated_at__lt=_from_now("untouched")',
        edges("test_dpp_44_a_submit_under_way_is_not_taken_for_abandoned"),
    ),
    Mutant(
        "a submit resumes a row whose money is held",
        TRANSITIONS,
        "_RESUME: Final = CompiledUpdate(\n    Run.objects.filter(_SEEN, _UNHELD)",
        "_RESUME: Final = CompiledUpdate(\n    Run.objects.filter(_SEEN, _UNCLAIMED)",
        edges(f"{EACH_EDGE}[resume-reserved]"),
    ),
    Mutant(
        "a drop takes a row whose money is held",
        TRANSITIONS,
        "Run.objects.filter(_UNHELD, run_id=run_id",
        "Run.objects.filter(_UNCLAIMED, run_id=run_id",
        edges(f"{EACH_EDGE}[drop-reserved]"),
    ),
    Mutant(
        "a failed send ends what a worker has started",
        TRANSITIONS,
        "_CLAIM_UNSENT: Final = CompiledUpdate(Run.objects.filter(_SEEN, _WAITING)",
        "_CLAIM_UNSENT: Final = CompiledUpdate(Run.objects.filter(_SEEN, _UNCLAIMED)",
        edges(f"{EACH_EDGE}[claim_unsent-working]"),
    ),
    Mutant(
        "a cancel takes a run it did not see at work",
        TRANSITIONS,
        'compared_row(status=Given("status"), money_state=MoneyState.RESERVED)',
        'compared_row(money_state=MoneyState.RESERVED), compared_row(status=Given("status")) | Q(version__gte=0)',
        edges(f"{EACH_EDGE}[claim_canceled-working]"),
    ),
    Mutant(
        "a run is refunded as dead that no letter names",
        TRANSITIONS,
        "Run.objects.filter(_SEEN, _WAITING, dead_lettered_at__isnull=False)",
        "Run.objects.filter(_SEEN, _WAITING)",
        edges("test_dpp_45_a_run_that_no_letter_names_is_not_refunded_as_dead"),
    ),
    Mutant(
        "two requeuers both may send",
        TRANSITIONS,
        'send_count=Given("send_count"),',
        'send_count__lte=Given("send_count"),',
        ends("test_dpp_43_a_send_that_is_not_ours_to_make_is_refused"),
    ),
    # How a run ends.
    Mutant(
        "a young claim is taken over",
        TRANSITIONS,
        'finalize_claimed_at__lt=_ago("stood")',
        'finalize_claimed_at__lt=_from_now("stood")',
        ends("test_dpp_42_a_young_claim_is_not_taken_over"),
    ),
    Mutant(
        "a failure is decided again",
        TRANSITIONS,
        'finalize_token=Given("token"), intent_status=Status.COMPLETED)',
        'finalize_token=Given("token"))',
        ends("test_dpp_42_a_failure_is_not_decided_again"),
    ),
    Mutant(
        "a commit forgets whose claim it was",
        TRANSITIONS,
        'Run.objects.filter(_SEEN, _CLAIMED, finalize_token=Given("token")),\n    status=F(',
        'Run.objects.filter(_SEEN, _CLAIMED, Q(finalize_token=Given("token")) | Q(version__gte=0)),\n    status=F(',
        ends("test_dpp_34_only_the_holder_of_the_claim_goes_on"),
    ),
    Mutant(
        "a commit forgets the version",
        TRANSITIONS,
        'Run.objects.filter(_SEEN, _CLAIMED, finalize_token=Given("token")),\n    status=F(',
        'Run.objects.filter(Q(version=Given("version")) | Q(version__gte=0), _CLAIMED, run_id=Given("run_id"),'
        ' finalize_token=Given("token")),\n    status=F(',
        ends("test_dpp_55_a_fence_raises_what_stands_between_two_effects_and_nothing_else"),
    ),
    Mutant(
        "every end frees its key",
        TRANSITIONS,
        'Case(When(intent_reason_code__in=FREES_ITS_KEY, then=None), default=F("idempotency_key"))',
        "None",
        ends("test_dpp_06_every_other_end_keeps_the_key"),
    ),
    Mutant(
        "no end frees its key",
        TRANSITIONS,
        'Case(When(intent_reason_code__in=FREES_ITS_KEY, then=None), default=F("idempotency_key"))',
        'F("idempotency_key")',
        ends("test_dpp_06_a_run_that_never_reached_its_caller_frees_its_key"),
    ),
    Mutant(
        "a rebuild fences nobody",
        TRANSITIONS,
        "    runs = Run.objects.filter(between, run_id__in=run_ids)\n",
        "    runs = Run.objects.filter(between, run_id__in=run_ids).none()\n",
        ends("test_dpp_55_a_fence_of_one_tenant_leaves_the_others"),
    ),
    Mutant(
        "a lost result is charged in full",
        TRANSITIONS,
        'intent_charge_usd_micros=Given("charge_micros"),',
        'intent_charge_usd_micros=Given("charge_micros", BigIntegerField()) + F("minimum_fee_usd_micros"),',
        ends("test_dpp_42_reintend_turns_a_completion_into_the_minimum_fee"),
    ),
    Mutant(
        "a run expires before its time",
        TRANSITIONS,
        "status__in=[Status.COMPLETED, Status.FAILED], retention_until__lt=Now()",
        "status__in=[Status.COMPLETED, Status.FAILED]",
        ends("test_dpp_23_within_its_retention_a_run_stays"),
    ),
    Mutant(
        "a tombstone in dispute is forgotten",
        TRANSITIONS,
        "            .exclude(money_state=MoneyState.DISPUTED)\n",
        "",
        ends("test_dpp_23_a_disputed_tombstone_is_not_forgotten"),
    ),
    Mutant(
        "the sum of a refund is settled",
        FINALIZATION,
        "    if claim.money_state is MoneyState.REFUNDED:\n",
        "    if claim.money_state is MoneyState.NONE:\n",
        rivals("test_dpp_09_the_claim_comes_before_the_refund"),
    ),
    Mutant(
        "a claim whose money waits is called lost",
        FINALIZATION,
        "closed=moved.closed)\n            return Unfinished.WAITING\n",
        "closed=moved.closed)\n            return Unfinished.LOST\n",
        cancels("test_dpp_27_while_money_is_closed_the_claim_stands_and_the_reconciler_pays"),
    ),
    Mutant(
        "a finisher gives up after a rebuild",
        FINALIZATION,
        "TURNS: Final = 3\n",
        "TURNS: Final = 1\n",
        claims("test_dpp_53_money_that_redis_lost_is_made_again_and_settled_once"),
    ),
    # How a run begins.
    Mutant(
        "another request under a key is answered with the first's receipt",
        RUN_OF_KEY,
        "        if run.payload_hash != self._asked.payload_hash:\n",
        "        if run.payload_hash is None:\n",
        replays("test_dpp_04_another_request_under_the_key_is_a_conflict"),
    ),
    Mutant(
        "a resumer goes on without the row",
        RUN_OF_KEY,
        "        if resumed is LOST:\n            return IN_PROGRESS\n",
        "        if resumed is LOST:\n            resumed = run\n",
        locks("test_dpp_08_a_retry_that_lost_the_row_to_another_holds_nothing"),
    ),
    Mutant(
        "a run whose mark was lost is announced",
        HOLD_AND_SEND,
        "        if marked is LOST:\n            return None\n",
        "        if marked is LOST:\n            marked = replace(row, version=row.version + 1)\n",
        rivals("test_dpp_53_a_sweep_after_the_hold_gives_it_back"),
    ),
    Mutant(
        "a refused hold leaves its row",
        HOLD_AND_SEND,
        "if transitions.drop(run_id=row.run_id, version=row.version) is LOST:\n",
        "if not transitions.drop:\n",
        rivals("test_dpp_08_money_that_went_between_the_glance_and_the_hold_is_402_and_no_row"),
    ),
    Mutant(
        "a failed send is called a success",
        HOLD_AND_SEND,
        "            if (refusal := self._taken_back(row)) is not None:\n",
        "            if (refusal := None) is not None:\n",
        rivals("test_dpp_09_a_failed_send_ends_the_run_and_frees_the_key"),
    ),
    Mutant(
        "a run taken back keeps its mapping",
        HOLD_AND_SEND,
        "                    key_lock.forget_mapping(self._lock)\n",
        "                    pass\n",
        rivals("test_dpp_09_a_failed_send_ends_the_run_and_frees_the_key"),
    ),
    Mutant(
        "a key that is being freed is answered as if it stood",
        RUN_OF_KEY,
        "        if run.finalize_stage == Stage.CLAIMED and run.intent_reason_code in FREES_ITS_KEY:\n",
        "        if run.finalize_stage is None and run.intent_reason_code in FREES_ITS_KEY:\n",
        replays("test_dpp_06_until_then_a_retry_is_in_progress"),
    ),
    Mutant(
        "the lock is released whoever holds it",
        "runs/lua/unlock.lua",
        "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end\n",
        "",
        locks("test_dpp_05_a_handler_whose_lock_lapsed_leaves_the_next_ones_alone"),
    ),
    Mutant(
        "the lock goes with the mapping whoever holds it",
        "runs/lua/write_mapping.lua",
        "if redis.call('GET', KEYS[2]) ~= ARGV[5] then return 0 end\n",
        "",
        locks("test_dpp_05_a_handler_whose_lock_lapsed_leaves_the_next_ones_alone"),
    ),
    Mutant(
        "the mapping outlives its key",
        IDEMPOTENCY,
        "created_at_ms // 1_000 + IDEMPOTENCY_MAPPING_TTL_SECONDS\n",
        "created_at_ms // 1_000 + 2 * IDEMPOTENCY_MAPPING_TTL_SECONDS\n",
        replays("test_dpp_06_the_mapping_lives_as_long_as_the_key"),
    ),
    # The worker and the owner.
    Mutant(
        "a worker that lost the start works on",
        STARTING,
        "    if moved is LOST:\n        return _Refused.LOST\n",
        "    if moved is LOST:\n        return found\n",
        executed("test_dpp_30_the_loser_of_the_start_does_nothing"),
    ),
    Mutant(
        "a start whose answer was lost is given up",
        STARTING,
        "    if again and (mine := for_worker.held_by(lease_token)) is not None:\n",
        "    if again and (mine := for_worker.held_by(lease_token * 2)) is not None:\n",
        outages("test_dpp_39_an_answer_of_postgres_that_got_lost_is_looked_up"),
    ),
    Mutant(
        "a worker that lost the claim moves the money",
        EXECUTION,
        "            return End.CLAIM_LOST if claimed is LOST else",
        "            return Claim.stored(Run.objects.get(pk=run.pk), actor=ACTOR) if claimed is LOST else",
        executed("test_dpp_34_the_loser_of_the_claim_settles_nothing_and_points_at_nothing"),
    ),
    Mutant(
        "a claim whose answer was lost is given up",
        EXECUTION,
        "                return _won_before(run, token)\n",
        "                return End.CLAIM_LOST\n",
        outages("test_dpp_39_an_answer_of_postgres_that_got_lost_is_looked_up"),
    ),
    Mutant(
        "a worker takes over the version that a fence made",
        EXECUTION,
        "replace(Claim.stored(mine, actor=ACTOR), version=run.version + 1)",
        "Claim.stored(mine, actor=ACTOR)",
        outages("test_dpp_55_a_claim_that_its_worker_read_after_a_fence_is_fenced_again"),
    ),
    Mutant(
        "a result is claimed that was not stored",
        DELIVERY,
        "sha256 = bucket.put(document.key, document.content, content_type=document.content_type)\n",
        'sha256 = "a" * 64\n',
        executed("test_dpp_33_the_envelope_lies_at_its_key_with_type_and_hash"),
    ),
    Mutant(
        "what the platform lacks is charged",
        DELIVERY,
        "    if outcome.reason is ReasonCode.ENGINE_UNAVAILABLE:\n",
        "    if outcome.reason is None:\n",
        executed("test_execution_what_the_platform_lacks_costs_nothing"),
    ),
    Mutant(
        "a pack reads other tenants' uploads",
        "runs/bucket/storage.py",
        "    return key.startswith(upload_prefix(tenant_id)) and {",
        "    return {",
        executed("test_execution_a_pack_reads_the_uploads_of_its_own_tenant_alone"),
    ),
    Mutant(
        "a lost lease does not stop its pack",
        "runs/worker/leases.py",
        "                one.stop()\n",
        "",
        leases("test_dpp_31_a_lost_lease_stops_its_pack_and_no_other"),
    ),
    Mutant(
        "a lease in Redis is renewed whoever holds it",
        "runs/lua/renew_lease.lua",
        "  if redis.call('GET', key) == ARGV[at + 1] then\n",
        "  if redis.call('GET', key) then\n",
        leases("test_dpp_31_a_beat_renews_no_signal_but_its_own"),
    ),
    Mutant(
        "a canceled run's worker is not told",
        "runs/cancel/cancellation.py",
        "                _tell_worker(run_id)\n",
        "                pass\n",
        cancels("test_dpp_27_a_run_at_work_is_canceled_for_the_minimum_fee_and_its_worker_told"),
    ),
    Mutant(
        "a canceled run at work is never let go",
        "runs/cancel/cancellation.py",
        "    if run.status == Status.QUEUED:\n        return",
        "    if run.status:\n        return",
        cancels("test_dpp_27_a_run_at_work_is_canceled_for_the_minimum_fee_and_its_worker_told"),
    ),
    Mutant(
        "a bucket takes a token that is not there",
        "tenants/lua/token_bucket.lua",
        "if level >= TOKEN then\n",
        "if level > 0 then\n",
        In("integration/tenants/test_rate_limit_bucket")("test_rate_limit_grants_the_limit_and_not_one_more"),
    ),
)
