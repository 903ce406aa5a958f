"""Faults in what people may do, and in what is written down of it."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

TRAIL: Final = "dpp_project/audit/trail.py"

audit = In("integration/platform/test_audit_trail")
every_act = In("integration/platform/test_audit_every_act")
EVERY_ACT: Final = "test_dpp_97_an_act_leaves_one_entry_and_a_refused_one_none"
solo = In("integration/ops/test_solo_limit")

MUTANTS: Final = (
    Mutant(
        "what is taken is not bounded",
        "budget/solo_limit.py",
        "abs(amount_micros) > limit_micros()",
        "amount_micros > limit_micros()",
        solo("test_hrd_14_one_person_enters_the_limit_and_not_a_step_more"),
    ),
    Mutant(
        "a refund alone has no bound",
        "runs/operators/disputes.py",
        "    if alone is not None:\n        return alone\n",
        "",
        solo("test_hrd_14_a_dispute_is_refunded_alone_up_to_the_limit"),
    ),
    Mutant(
        "a large top-up ticket needs one person",
        "ops/tickets/processors.py",
        "return self.dangerous or solo_limit.is_above(moves)",
        "return self.dangerous",
        solo("test_hrd_14_a_top_up_ticket_above_the_limit_waits_for_a_second_person"),
    ),
    Mutant(
        "a repair by hand has no bound",
        "budget/repairs.py",
        "refusal = None if approved_by is not None else _too_much(tenant_id)",
        "refusal = None",
        solo("test_hrd_14_a_repair_by_hand_moves_the_limit_at_most"),
    ),
    Mutant(
        "an entry may stand without its act",
        TRAIL,
        "    if not connection.in_atomic_block:\n",
        "    if connection is None:\n",
        audit("test_dpp_97_an_entry_needs_the_transaction_of_its_act"),
    ),
    Mutant(
        "a tenant learns which operator it was",
        "tenants/audit_api.py",
        "entry.actor if entry.actor.startswith(OWNER) else OPERATOR",
        "entry.actor",
        audit("test_dpp_97_a_tenant_reads_what_concerns_it_and_no_names_of_operators"),
    ),
    Mutant(
        "a tenant reads another's trail",
        "dpp_project/audit/reads.py",
        "AuditEntry.objects.filter(tenant_id=tenant_id)",
        "AuditEntry.objects.all()",
        audit("test_dpp_97_a_tenant_reads_what_concerns_it_and_no_names_of_operators"),
    ),
    Mutant(
        "the same again is entered again",
        "tenants/services.py",
        "        if after:\n            Tenant",
        "        if values:\n            Tenant",
        audit("test_dpp_97_a_dry_run_and_the_same_again_leave_no_entry"),
    ),
    Mutant(
        "an operator's cancel leaves no entry",
        "runs/finish/cancellation.py",
        "    if reason is not ReasonCode.CANCELED_BY_OPERATOR:\n",
        "    if reason is not None:\n",
        every_act(EVERY_ACT + "[console runs.run cancel]"),
    ),
)
