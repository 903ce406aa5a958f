"""Faults that make one tenant's trouble everybody's, or let it through: rebuilds, zones, full ledgers, stray holds."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

REBUILD: Final = "budget/rebuild/rebuild.py"
STRAYS: Final = "budget/verification/stray_holds.py"

left_closed = In("integration/budget/test_rebuild_left_closed")
behind = In("integration/budget/test_ledger_behind")
zones = In("integration/runs/test_unknown_zones")
disputes = In("integration/runs/test_disputes_flow")
audits = In("integration/reaper/test_hold_auditor_holds")

KEEPS_NO_OTHERS: Final = left_closed("test_dpp_55_what_fails_for_one_tenant_keeps_no_others_money_closed")
GOES_BACK: Final = audits("test_hrd_04_a_stray_hold_of_a_tenant_that_never_stands_still_goes_back")

MUTANTS: Final = (
    Mutant(
        "one tenant's failure keeps all money closed",
        REBUILD,
        '        log.warning("money could not be rebuilt from one view',
        '        raise\n        log.warning("money could not be rebuilt from one view',
        KEEPS_NO_OTHERS,
    ),
    Mutant(
        "a tenant that could not be written is opened with the others",
        REBUILD,
        "            scripts.shared_scripts().gate.close_tenant(client, tenant_id)\n",
        "",
        KEEPS_NO_OTHERS,
    ),
    Mutant(
        "a script's refusal is none of a rebuild's errors",
        REBUILD,
        "        except ScriptRefused as refused:\n",
        "        except ZeroDivisionError as refused:\n",
        left_closed("test_dpp_55_a_tenant_whose_own_rebuild_is_refused_is_closed_and_named"),
    ),
    Mutant(
        "money opens where no tenant could be written",
        REBUILD,
        "    if failed and not written:\n",
        "    if not failed and not written:\n",
        left_closed("test_dpp_55_what_fails_for_every_tenant_is_no_tenants"),
    ),
    Mutant(
        "a Redis that is away is a tenant's failure",
        REBUILD,
        "    return postgres.is_away(error) or isinstance(error, redis.ConnectionError | redis.TimeoutError)\n",
        "    return postgres.is_away(error)\n",
        left_closed("test_dpp_55_a_redis_that_is_away_leaves_no_tenant_closed_by_itself"),
    ),
    Mutant(
        "the watch does not say who is left closed",
        "budget/rebuild/gate_watch.py",
        "            self.failed += len(made.left_closed)\n",
        "",
        KEEPS_NO_OTHERS,
    ),
    Mutant(
        "a refund has room whatever the tenant's money comes to",
        "budget/ledger.py",
        "    return sums_of(tenant_id).total_micros + amount_micros <= MAX_MICROS\n",
        "    return True\n",
        disputes("test_dpp_58_a_refund_that_the_tenants_money_has_no_room_for_changes_nothing"),
    ),
    Mutant(
        "what Redis missed is asked no more",
        "budget/rebuild/evidence.py",
        "        scripts.shared_scripts().gate.ask_first(partial(_ask_late))\n",
        "",
        behind("test_hrd_06_a_connection_opened_while_redis_was_away_is_asked_before_money_moves"),
    ),
    Mutant(
        "an epoch that is known spares the open question",
        "budget/redis/gate.py",
        "if known is None or self._unasked is not None else known",
        "if known is None else known",
        behind("test_hrd_06_a_connection_opened_while_redis_was_away_is_asked_before_money_moves"),
    ),
    Mutant(
        "a question that could not be answered is forgotten",
        "budget/redis/gate.py",
        "            question()\n            if self._unasked is question:\n                self._unasked = None\n",
        "            self._unasked = None\n            question()\n",
        behind("test_hrd_06_a_late_question_is_asked_until_it_is_answered_and_then_no_more"),
    ),
    Mutant(
        "a run is dated in a zone that Postgres lacks",
        "runs/transitions.py",
        "AT TIME ZONE known_zone(zone))",
        "AT TIME ZONE zone)",
        zones("test_cap_05_a_run_in_an_unknown_zone_is_dated_in_utc"),
    ),
    Mutant(
        "alerts ask for the date of a zone that Postgres lacks",
        "tenants/webhooks/cap_reached.py",
        '    zone = Func(F("tenant__zone"), function="known_zone")\n',
        '    zone: Any = F("tenant__zone")\n',
        zones("test_cap_05_alerts_go_on_beside_a_tenant_in_an_unknown_zone"),
    ),
    Mutant(
        "an ended run's hold is taken for one of an open run",
        "runs/reads/for_budget.py",
        "Run.objects.filter(run_id__in=asked).exclude(finalize_stage=Stage.COMMITTED)",
        "Run.objects.filter(run_id__in=asked)",
        GOES_BACK,
    ),
    Mutant(
        "a hold that went between two looks is stray",
        STRAYS,
        "            if micros is not None:\n",
        "            if True:\n",
        audits("test_hrd_04_of_a_tenant_that_never_stands_still_what_fits_is_not_touched"),
    ),
    Mutant(
        "a tenant that never stands still is left alone",
        "reaper/hold_auditor.py",
        "    return stray_holds.proof_of_single_holds(tenant_id) if proof.verdict is Verdict.UNSETTLED else proof\n",
        "    return proof\n",
        GOES_BACK,
    ),
    Mutant(
        "a tenant that is being rebuilt is rebuilt again for its holds",
        STRAYS,
        "    if not mark.is_open() or mark.gate is not None:",
        "    if not mark.is_open():",
        audits("test_hrd_04_a_tenant_that_is_being_rebuilt_is_not_looked_at"),
    ),
)
