"""Faults in the money: one in each script at least, in the gates, the rebuild and the ledger."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

scripts = In("contract/test_money_scripts")
gates = In("contract/test_gate_scripts")
rebuilds = In("integration/budget/test_budget_rebuild")
entries = In("integration/budget/test_budget_entries")
lost_holds = In("integration/reaper/test_lost_holds")
auditor = In("integration/reaper/test_hold_auditor_holds")
behind = In("integration/budget/test_ledger_behind")
EVIDENCE: Final = "budget/rebuild/evidence.py"
ends = In("integration/runs/test_transitions_ends")

BEHIND_THE_GATE: Final = scripts("test_dpp_55_no_money_moves_behind_a_closed_gate_or_without_a_balance")
GATE: Final = "if known[2] then return {'ERR_UNAVAILABLE', 'gate'} end\n"
EPOCH: Final = "if known[1] ~= epoch then return {'ERR_UNAVAILABLE', 'epoch'} end\n"


def script(name: str) -> str:
    return f"budget/redis/lua/{name}.lua"


MUTANTS: Final = (
    # Reserve.
    Mutant(
        "a late reserve passes the tombstone",
        script("reserve"),
        "if receipt then\n",
        "if false then\n",
        scripts("test_dpp_53_a_late_reserve_meets_the_tombstone"),
    ),
    Mutant("a reserve is let through a closed gate", script("reserve"), GATE, "", BEHIND_THE_GATE),
    Mutant(
        "a hold takes one micro too many",
        script("reserve"),
        "if tonumber(balance) < tonumber(amount) then",
        "if tonumber(balance) + 1 < tonumber(amount) then",
        scripts("test_reserve_may_take_the_whole_balance_and_not_one_micro_more"),
    ),
    Mutant(
        "a hold expires with its reserve key",
        script("reserve"),
        "redis.call('EXPIRE', KEYS[2], 3600)\n",
        "redis.call('EXPIRE', KEYS[2], 3600)\nredis.call('EXPIRE', KEYS[3], 3600)\n",
        scripts("test_a_hold_outlives_its_reserve_key"),
    ),
    Mutant(
        "a reserve passes holds that were lost",
        script("reserve"),
        "if held or owner then",
        "if held then",
        scripts("test_reserve_sees_that_the_holds_were_lost"),
    ),
    # Settle.
    Mutant(
        "a second settle takes again",
        script("settle"),
        "if receipt then\n",
        "if false then\n",
        scripts("test_dpp_53_settle_again_answers_the_first_result"),
    ),
    Mutant(
        "a settle may take more than was held",
        script("settle"),
        "if tonumber(charge) > tonumber(held) then charge = held end\n",
        "",
        scripts("test_settle_charges_no_more_than_was_held"),
    ),
    Mutant(
        "a settle leaves the hold behind",
        script("settle"),
        "redis.call('HDEL', KEYS[3], run)\n",
        "",
        scripts("test_settle_takes_the_charge_and_gives_the_rest_back"),
    ),
    Mutant(
        "a settle does not ask whose money it is",
        script("settle"),
        "  if owner and owner ~= tenant then return {'ERR_TENANT_MISMATCH'} end\n",
        "",
        scripts("test_dpp_52_one_tenants_run_is_not_anothers"),
    ),
    Mutant("a settle goes through a closed gate", script("settle"), GATE, "", BEHIND_THE_GATE),
    Mutant("a settle of an older epoch is done", script("settle"), EPOCH, "", BEHIND_THE_GATE),
    Mutant(
        "a settle does not show in the sequence",
        script("settle"),
        "redis.call('INCR', KEYS[6])\n",
        "",
        scripts("test_settle_takes_the_charge_and_gives_the_rest_back"),
    ),
    # RefundFull.
    Mutant(
        "a refund without a hold leaves no tombstone",
        script("refund_full"),
        "  held, outcome = '0', 'tombstone'\n",
        "  return {'OK', '0', balance, '0', 'tombstone'}\n",
        scripts("test_dpp_53_a_late_reserve_meets_the_tombstone"),
    ),
    Mutant(
        "a second refund gives again",
        script("refund_full"),
        "if receipt then\n",
        "if false then\n",
        scripts("test_dpp_53_refund_again_answers_the_first_result"),
    ),
    Mutant(
        "a refund leaves the hold behind",
        script("refund_full"),
        "redis.call('HDEL', KEYS[3], run)\n",
        "",
        scripts("test_refund_gives_the_whole_hold_back"),
    ),
    Mutant(
        "lost holds are taken for a tombstone",
        script("refund_full"),
        "  if held or owner or was_held then return {'ERR_NO_RESERVE'} end\n",
        "  if held or was_held then return {'ERR_NO_RESERVE'} end\n",
        scripts("test_refund_sees_that_the_holds_were_lost"),
    ),
    Mutant(
        "a hold that was lost with its reserve key is taken for never made",
        script("refund_full"),
        "  if held or owner or was_held then return {'ERR_NO_RESERVE'} end\n",
        "  if held or owner then return {'ERR_NO_RESERVE'} end\n",
        scripts("test_hrd_04_refund_of_a_run_that_was_held_leaves_no_tombstone"),
    ),
    Mutant(
        "a refund takes a hold that is no amount for one that was never made",
        script("refund_full"),
        "  if held or owner or was_held then return {'ERR_NO_RESERVE'} end\n",
        "  if owner or was_held then return {'ERR_NO_RESERVE'} end\n",
        scripts("test_hrd_04_a_hold_that_is_no_amount_is_lost_to_every_script"),
    ),
    Mutant(
        "a hold of too many digits is counted with",
        script("run_hold"),
        "#held <= 16 and ",
        "",
        scripts("test_hrd_04_a_hold_that_is_no_amount_is_lost_to_every_script"),
    ),
    Mutant(
        "a tombstone ends a run that was held",
        script("refund_full"),
        "  if was_held and charged == '0' and refunded == '0' then return {'ERR_NO_RESERVE'} end\n",
        "",
        lost_holds("test_hrd_04_a_refund_of_a_lost_hold_gives_the_money_back"),
    ),
    Mutant(
        "a claim that is taken over forgets that its run was held",
        "runs/claims.py",
        "was_held=run.money_state == MoneyState.RESERVED",
        "was_held=run.money_state == MoneyState.SETTLED",
        lost_holds("test_hrd_04_a_refund_of_a_lost_hold_gives_the_money_back"),
    ),
    Mutant(
        "a run whose submit died is taken for held",
        "runs/transitions.py",
        "actor=actor, was_held=False, untouched=untouched)",
        "actor=actor, untouched=untouched)",
        lost_holds("test_hrd_04_a_submit_that_never_held_still_leaves_its_tombstone"),
    ),
    Mutant(
        "an orphan hold is looked for beside open runs alone",
        "reaper/hold_auditor.py",
        "    return _turn.in_turn({*with_runs, *_with_holds(), *_found_to_differ()})\n",
        "    return _turn.in_turn({*with_runs, *_found_to_differ()})\n",
        auditor("test_hrd_04_an_orphan_hold_of_a_tenant_without_runs_is_given_back"),
    ),
    Mutant(
        "a wrong balance of a tenant at rest is reported, and left",
        "reaper/hold_auditor.py",
        "    return _turn.in_turn({*with_runs, *_with_holds(), *_found_to_differ()})\n",
        "    return _turn.in_turn({*with_runs, *_with_holds()})\n",
        auditor("test_hrd_04_a_tenant_without_runs_and_holds_is_repaired_when_the_proof_named_it"),
    ),
    Mutant(
        "one tenant's holds that are no hash keep all from being compared",
        "reaper/hold_auditor.py",
        "pipe.execute(raise_on_error=False)",
        "pipe.execute()",
        auditor("test_hrd_04_holds_that_cannot_be_read_keep_no_tenant_from_being_compared"),
    ),
    Mutant(
        "what stands as a hold and is none is no difference",
        "budget/verification/verify.py",
        " for run_id in money.unreadable)\n",
        " for run_id in ())\n",
        auditor("test_hrd_04_holds_of_a_tenant_at_rest_that_are_no_hash_are_dropped"),
    ),
    # Credit.
    Mutant(
        "a credit of an older epoch is applied",
        script("credit"),
        EPOCH,
        "",
        scripts("test_credit_of_another_epoch_is_refused"),
    ),
    Mutant(
        "a credit is applied twice",
        script("credit"),
        "if receipt then\n",
        "if false then\n",
        scripts("test_credit_reaches_the_balance_once"),
    ),
    Mutant(
        "a credit passes the limit",
        script("credit"),
        "if math.abs(tonumber(balance) + tonumber(amount)) > 9007199254740991 then",
        "if false then",
        scripts("test_credit_stops_at_the_limit_either_way"),
    ),
    # Rebuild.
    Mutant(
        "a rebuild keeps old holds",
        script("rebuild"),
        "  redis.call('DEL', KEYS[2])\n",
        "",
        scripts("test_rebuild_writes_a_tenant_whole"),
    ),
    Mutant(
        "a superseded rebuild writes on",
        script("rebuild"),
        "if not whole and not alone then return {'ERR_SUPERSEDED'} end\n",
        "",
        scripts("test_rebuild_is_refused_where_the_gate_is_not_its_own"),
    ),
    Mutant(
        "a rebuild keeps the receipt of an open run",
        script("rebuild"),
        "  redis.call('DEL', key, other)\n",
        "  redis.call('DEL', key)\n",
        scripts("test_rebuild_writes_a_tenant_whole"),
    ),
    Mutant(
        "a rebuild forgets what was charged",
        script("rebuild"),
        "    redis.call('SET', other, first .. ' '",
        "    redis.call('SET', other, '0' .. ' '",
        scripts("test_rebuild_writes_a_tenant_whole"),
    ),
    Mutant(
        "a rebuild leaves finishers unfenced",
        "budget/rebuild/rebuild.py",
        "        if not fence_open_runs(None, mine):\n            return None\n",
        "",
        rebuilds("test_dpp_55_a_finisher_that_a_rebuild_overtook_commits_nothing"),
    ),
    Mutant(
        "a rebuild forgets receipts",
        "budget/rebuild/rebuild.py",
        "ended_runs=runs.ended(tenant_id=tenant_id, within=timedelta(seconds=keys.RECEIPT_REBUILT_SECONDS))",
        "ended_runs=[]",
        rebuilds("test_hrd_03_receipts_come_back_as_long_as_a_finisher_may_ask"),
    ),
    Mutant(
        "a rebuild forgets open holds",
        "budget/rebuild/rebuild.py",
        "open_runs=runs.open(tenant_id=tenant_id)",
        "open_runs=[]",
        rebuilds("test_dpp_55_a_flush_closes_money_and_the_watch_opens_it"),
    ),
    Mutant(
        "a rebuild opens without having written",
        "budget/rebuild/rebuild.py",
        "        if not (mine.renewed() and _wrote_whole_rebuild(client, tenant_id, counted, token, mine)):\n",
        "        if not mine.renewed():\n",
        rebuilds("test_dpp_57_pending_credits_are_counted_by_a_rebuild"),
    ),
    Mutant(
        "lost money is said to be rebuilt, and is not",
        "budget/services.py",
        "    return AskAgain() if rebuild.try_rebuild_tenant(tenant_id) else otherwise\n",
        "    return AskAgain()\n",
        rebuilds("test_dpp_55_lost_money_is_rebuilt_and_the_caller_asks_again"),
    ),
    Mutant(
        "a rebuild that could not be done is taken for done",
        "budget/services.py",
        "    return AskAgain() if rebuild.try_rebuild_tenant(tenant_id) else otherwise\n",
        "    rebuild.try_rebuild_tenant(tenant_id)\n    return AskAgain()\n",
        rebuilds("test_dpp_55_lost_money_that_cannot_be_rebuilt_now_is_unavailable"),
    ),
    Mutant(
        "a lost hold is answered as if money were away",
        "budget/services.py",
        "    if isinstance(answer, HoldLost) or answer == BALANCE_LOST:\n",
        "    if isinstance(answer, HoldLost):\n        return BALANCE_LOST\n    if answer == BALANCE_LOST:\n",
        In("race/test_submit_rivals")("test_dpp_55_a_hold_that_redis_lost_is_made_again_on_the_way"),
    ),
    Mutant(
        "a balance forgets the open holds",
        "budget/rebuild/rebuild.py",
        "        balances[reserved.tenant_id] -= reserved.micros\n",
        "",
        rebuilds("test_preview_writes_nothing"),
    ),
    Mutant(
        "a rebuild that waits for a statement loses its lease",
        "budget/rebuild/lease.py",
        "LEASE_SECONDS: Final = 25\n",
        "LEASE_SECONDS: Final = 15\n",
        rebuilds("test_hrd_01_the_lease_of_a_rebuild_that_stopped_runs_out"),
    ),
    Mutant(
        "a rebuild that is through frees the lease of another",
        "budget/redis/lua/rebuild_lease.lua",
        "  if holder ~= ARGV[2] then return 0 end\n",
        "",
        rebuilds("test_hrd_01_a_frozen_rebuild_that_wakes_up_beside_another_leaves_the_gate_to_it"),
    ),
    Mutant(
        "a rebuild that writes lets its lease run out",
        "budget/rebuild/rebuild.py",
        "        if isinstance(outcome, Superseded) or not mine.renewed():\n",
        "        if isinstance(outcome, Superseded):\n",
        rebuilds("test_hrd_01_a_rebuild_that_gets_on_keeps_its_lease"),
    ),
    Mutant(
        "a frozen rebuild that wakes up closes money once more",
        "budget/rebuild/rebuild.py",
        "            if not mine.renewed() or not _all_is_closed():\n",
        "            if not mine.renewed():\n",
        rebuilds("test_hrd_01_a_frozen_rebuild_that_wakes_up_writes_no_older_snapshot"),
    ),
    Mutant(
        "a fence takes who went on since for fenced",
        "runs/reads/for_budget.py",
        "    return _budget_runs_of_tenant(Run.objects.filter(between).exclude(last_actor=ACTOR)",
        "    return _budget_runs_of_tenant(Run.objects.filter(between).exclude(last_actor__in=(ACTOR, 'worker'))",
        In("integration/runs/test_runs_models_open")("test_hrd_02_a_run_that_moved_since_its_fence_is_fenced_again"),
    ),
    Mutant(
        "a run that was forgotten counts as lost",
        "runs/reads/for_budget.py",
        "            if uuid.UUID(run_id) < oldest:\n",
        "            if uuid.UUID(run_id) < uuid.UUID(int=0):\n",
        In("integration/reaper/test_retention_runs")("test_hrd_06_a_run_that_was_forgotten_is_no_commit_that_was_lost"),
    ),
    Mutant(
        "a fence that was cut begins anew",
        "runs/reads/for_budget.py",
        "    return _budget_runs_of_tenant(Run.objects.filter(between).exclude(last_actor=ACTOR)",
        "    return _budget_runs_of_tenant(Run.objects.filter(between)",
        In("integration/runs/test_runs_models_open")(
            "test_hrd_02_a_fence_goes_in_batches_and_goes_on_where_it_was_cut"
        ),
    ),
    Mutant(
        "a fence loses the last of its batches",
        "runs/reads/for_budget.py",
        "        for at in range(0, len(packed), size):\n",
        "        for at in range(0, len(packed) - size + 1, size):\n",
        In("integration/runs/test_runs_models_open")(
            "test_hrd_02_a_fence_goes_in_batches_and_goes_on_where_it_was_cut"
        ),
    ),
    Mutant(
        "two rebuilds work at once",
        "budget/redis/lua/rebuild_lease.lua",
        "if holder and holder ~= ARGV[2] then return 0 end\n",
        "",
        rebuilds("test_one_rebuild_at_a_time"),
    ),
    Mutant(
        "a rebuild counts a credit without its receipt",
        "budget/rebuild/rebuild.py",
        "credits_counted=_credits(tenant_id)",
        "credits_counted=[]",
        rebuilds("test_dpp_57_pending_credits_are_counted_by_a_rebuild"),
    ),
    Mutant(
        "of two rebuilds that cross the older is written",
        script("rebuild"),
        "local alone = gates[2] == token and gates[1] and string.sub(gates[1], 1, 7) ~= 'closed.'\n",
        "local alone = gates[2] == token\n",
        scripts("test_dpp_55_rebuild_of_one_tenant_is_refused_while_all_money_is_closed"),
    ),
    # The gates.
    Mutant(
        "the gate opens to who did not close it",
        script("gate_open"),
        "if redis.call('GET', KEYS[1]) ~= token then return {'ERR_SUPERSEDED'} end\n",
        "",
        gates("test_a_token_that_was_superseded_opens_nothing"),
    ),
    Mutant(
        "the gate opens on another server",
        script("gate_open"),
        "if string.match(token, '^closed%.(%x+)%.') ~= server then return {'ERR_SUPERSEDED'} end\n",
        "",
        gates("test_a_token_of_another_server_opens_nothing_here"),
    ),
    Mutant(
        "a closing that forgets to close",
        script("gate_close"),
        "redis.call('SET', KEYS[1], token)\n",
        "",
        gates("test_a_look_at_a_closed_gate_leaves_it_to_whoever_closed_it"),
    ),
    Mutant(
        "a look at a closed gate closes it anew",
        script("gate_check"),
        "if string.sub(epoch, 1, 7) == 'closed.' then return {'CLOSED', epoch} end\n",
        "",
        gates("test_a_look_at_a_closed_gate_leaves_it_to_whoever_closed_it"),
    ),
    Mutant(
        "another server's image is believed",
        script("gate_check"),
        "if string.match(epoch, '^(%x+)%.') == server then",
        "if true then",
        gates("test_an_image_without_this_servers_epoch_is_closed"),
    ),
    Mutant(
        "a tenant opens to who did not close it",
        script("tenant_open"),
        "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'ERR_SUPERSEDED'} end\n",
        "",
        gates("test_a_tenants_gate_opens_to_its_own_token_alone"),
    ),
    Mutant(
        "a dead rebuild's gate stays closed",
        "budget/rebuild/gate_watch.py",
        "client.ttl(keys.gate_key(tenant_id)) == -1",
        "client.ttl(keys.gate_key(tenant_id)) == -3",
        rebuilds("test_the_watch_opens_what_a_dead_rebuild_left_closed"),
    ),
    # The ledger.
    Mutant(
        "what was taken too much is kept",
        "budget/ledger.py",
        "          FROM taken WHERE taken_micros > due_micros\n",
        "          FROM ended WHERE false\n",
        ends("test_dpp_42_the_receipt_decides_what_was_taken"),
    ),
    Mutant(
        "one credit that cannot be applied keeps the others from their balances",
        "dpp_project/jobs/skipped_rows.py",
        "            self.errors += 1\n",
        "            raise\n            self.errors += 1\n",
        entries("test_dpp_57_a_credit_that_cannot_be_applied_keeps_no_other_from_its_balance"),
    ),
    Mutant(
        "credits of a tenant whose gate is closed hide all others",
        "budget/entries.py",
        "            return outcome.closed\n",
        "            pass\n",
        entries("test_dpp_57_credits_of_a_tenant_whose_money_cannot_move_hide_no_others"),
    ),
    Mutant(
        "credits that fail fill every pass",
        "budget/entries.py",
        "        _turn.after = tenant_id\n",
        "",
        entries("test_dpp_57_the_next_pass_goes_on_behind_credits_that_filled_one"),
    ),
    Mutant(
        "a used reference is entered again",
        "budget/entries.py",
        "    if written is not None:\n",
        "    if written is not None and not written.pk:\n",
        entries("test_dpp_57_the_same_reference_enters_once"),
    ),
    Mutant(
        "an old pending credit is tried again",
        "budget/entries.py",
        "created_at__lt=Now() - REPLAY_AGE_MAX)",
        "created_at__lt=Now() - 99 * REPLAY_AGE_MAX)",
        entries("test_dpp_57_a_credit_left_for_half_a_day_is_counted_not_replayed"),
    ),
    Mutant(
        "a pending credit is old by this machine's clock",
        "budget/entries.py",
        "    found = PendingCredit.objects.filter(pk__in=[row.pk for row in rows], created_at__lt=Now() ",
        "    from dpp_project import clock\n\n"
        "    found = PendingCredit.objects.filter(pk__in=[row.pk for row in rows], created_at__lt=clock.now() ",
        entries("test_hrd_05_no_clock_of_a_process_applies_a_top_up_twice"),
    ),
    Mutant(
        "a receipt of a credit expires before its pending row has gone",
        script("credit"),
        "redis.call('SET', KEYS[2], amount .. ' ' .. balance .. ' ' .. tenant)",
        "redis.call('SET', KEYS[2], amount .. ' ' .. balance .. ' ' .. tenant, 'EX', 86400)",
        entries("test_hrd_05_a_receipt_stands_as_long_as_its_pending_row"),
    ),
    Mutant(
        "a rebuild lets the receipt of a pending credit expire",
        "budget/rebuild/rebuild.py",
        "yield Credit(owner, str(entry_id), micros, pending=is_pending)",
        "yield Credit(owner, str(entry_id), micros, pending=False)",
        entries("test_hrd_05_a_receipt_stands_as_long_as_its_pending_row"),
    ),
    Mutant(
        "a pending credit is forgotten when its tenant could not be rebuilt",
        "budget/entries.py",
        "    if not rebuild.try_rebuild_tenant(tenant_id):\n        return BALANCE_LOST\n",
        "    rebuild.try_rebuild_tenant(tenant_id)\n",
        entries("test_hrd_05_a_pending_credit_is_not_forgotten_where_its_tenant_cannot_be_rebuilt"),
    ),
    # A ledger from the past.
    Mutant(
        "a settle leaves no evidence",
        script("settle"),
        "if redis.call('LPUSH', KEYS[8], 'end:' .. run) > 1100 then",
        "if false then",
        scripts("test_hrd_06_what_ends_a_claimed_run_or_enters_a_credit_leaves_evidence_once"),
    ),
    Mutant(
        "a dropped row's refund leaves evidence",
        script("refund_full"),
        "if was_held then\n  if redis.call('LPUSH'",
        "if outcome == 'first' then\n  if redis.call('LPUSH'",
        scripts("test_hrd_06_a_refund_of_a_row_that_may_have_been_dropped_leaves_none"),
    ),
    Mutant(
        "evidence grows without bound",
        script("credit"),
        "then redis.call('LTRIM', KEYS[6], 0, 999) end\n",
        "then end\n",
        scripts("test_hrd_06_evidence_is_bounded"),
    ),
    Mutant(
        "an end that was lost is taken for known where its run stands",
        EVIDENCE,
        "for run_id, is_claimed in runs.items() if is_claimed}",
        "for run_id in runs}",
        behind("test_hrd_06_nothing_is_rebuilt_from_a_ledger_that_lost_entries"),
    ),
    Mutant(
        "evidence that cannot be read keeps every connection from being made",
        EVIDENCE,
        "read = [each for each in evidence if _READABLE.fullmatch(each)]",
        "read = list(evidence)",
        behind("test_hrd_06_evidence_that_cannot_be_read_keeps_no_connection_from_being_made"),
    ),
    Mutant(
        "a rebuild of one tenant does not ask what Postgres knows",
        "budget/rebuild/rebuild.py",
        "        evidence.require_commits(client)\n        token",
        "        token",
        behind("test_hrd_06_nothing_is_rebuilt_from_a_ledger_that_lost_entries"),
    ),
    Mutant(
        "a new connection marks a Postgres from the past as the one that knows all",
        EVIDENCE,
        "            _close(client, gone)\n        else:\n            client.set(keys.POSTGRES, server)\n",
        "            _close(client, gone)\n        client.set(keys.POSTGRES, server)\n",
        behind("test_hrd_06_the_first_connection_to_an_older_postgres_closes_the_money"),
    ),
    Mutant(
        "the watch does not ask while money is open",
        "budget/rebuild/gate_watch.py",
        "        evidence.require_commits(scripts.shared_scripts().client)\n",
        "        pass\n",
        behind("test_hrd_06_the_watch_closes_the_money_and_never_opens_it"),
    ),
    Mutant(
        "an accepted loss looks at receipts of claimed runs alone",
        "budget/ledger_loss.py",
        "    without_hold = [run_id for run_id in books.open_runs if run_id not in money.holds]\n",
        "    without_hold = [one for one, run in books.open_runs.items() if run.claimed and one not in money.holds]\n",
        behind("test_hrd_06_an_operator_accepts_the_loss"),
    ),
    Mutant(
        "an accepted loss forgets what still stood",
        EVIDENCE,
        "        for each in missing:\n            pipe.lrem(keys.EVIDENCE, 0, each)\n",
        "        pipe.delete(keys.EVIDENCE)\n",
        behind("test_hrd_06_what_an_operator_entered_is_missed_if_postgres_goes_back_again"),
    ),
    Mutant(
        "what was entered for a loss leaves no evidence",
        EVIDENCE,
        "        if by:\n",
        "        if not by:\n",
        behind("test_hrd_06_what_an_operator_entered_is_missed_if_postgres_goes_back_again"),
    ),
    Mutant(
        "a loss is entered a second time after a death",
        "budget/ledger_loss.py",
        "        if tenant.adjust_micros and ledger.entry_by_reference(tenant.tenant_id, reference) is None:\n",
        "        if tenant.adjust_micros is not None:\n",
        behind("test_hrd_06_an_operator_accepts_the_loss"),
    ),
)
