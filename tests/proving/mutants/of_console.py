"""Faults in what people may do, and in what is written down of it."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

TRAIL: Final = "dpp_project/audit/trail.py"

audit = In("integration/platform/test_audit_trail")
every_act = In("integration/platform/test_audit_every_act")
EVERY_ACT: Final = "test_dpp_97_an_act_leaves_one_entry_and_a_refused_one_none"
solo = In("integration/ops/test_solo_limit")
signing_in = In("integration/platform/test_console_sign_in")
SIGN_IN: Final = "dpp_project/signin/sign_in.py"

MUTANTS: Final = (
    Mutant(
        "an attacker locks an operator out of her own browser",
        SIGN_IN,
        "    if device is not None:\n        return attempts_reach",
        "    if device is not None and attempts_reach(failed.filter(subject=_subject(name)), NAME_FAILURES_MAX):\n"
        "        return True\n    if device is not None:\n        return attempts_reach",
        signing_in("test_hrd_13_an_attacker_does_not_lock_an_operator_out_of_her_own_browser"),
    ),
    Mutant(
        "a refused attempt is judged",
        SIGN_IN,
        "    if is_throttled(shown, device=device):\n        return SignInRefused.THROTTLED\n",
        "",
        signing_in("test_hrd_13_five_failures_of_a_name_refuse_it_to_strangers_wherever_they_come_from"),
    ),
    Mutant(
        "a code is good twice",
        "dpp_project/signin/totp.py",
        "if is_it and step > after:",
        "if is_it:",
        ("tests/unit/test_totp.py::test_hrd_13_a_code_is_good_once_and_no_older_one_after_it",),
    ),
    Mutant(
        "the second factor is not asked for",
        SIGN_IN,
        " or not _second_factor_holds(user, code)",
        "",
        signing_in("test_hrd_13_an_operator_sets_up_a_second_factor_and_is_asked_for_it"),
    ),
    Mutant(
        "a stolen session guesses the code of the second factor without end",
        "dpp_project/signin/views.py",
        "            sign_in.record_wrong(name, device=device)\n",
        "",
        signing_in("test_hrd_13_a_session_guesses_the_code_no_longer_than_a_stranger"),
    ),
    Mutant(
        "a stolen session sets up a second factor of its own",
        "dpp_project/signin/views.py",
        'None if factor is None and not user.check_password(given["password"]) else step',
        "step",
        signing_in("test_hrd_13_an_operator_sets_up_a_second_factor_and_is_asked_for_it"),
    ),
    Mutant(
        "a busy session never ends",
        "dpp_project/signin/views.py",
        "        request.session.set_expiry(clock.now() + settings.SESSION_LENGTH)\n",
        "",
        signing_in("test_hrd_13_a_session_ends_twelve_hours_after_its_login_however_busy"),
    ),
    Mutant(
        "everyone on the staff sees the figures",
        "dpp_project/console/dashboard.py",
        "        if not user.has_perm(registered.permission):\n",
        "        if user is None:\n",
        signing_in("test_hrd_13_staff_without_permissions_see_no_figures_on_any_page"),
    ),
    Mutant(
        "the log goes with its operator",
        "dpp_project/admin.py",
        "        LogEntry.objects.filter(user=obj).update(user=departed)\n",
        "",
        signing_in("test_hrd_13_the_log_outlives_its_operator"),
    ),
    Mutant(
        "an approval by command takes a name alone",
        "ops/tickets/management/commands/ticket.py",
        '    approver = _proven(options, "tickets.change_ticket")\n',
        '    approver = actors.operator(options["by"])\n',
        solo("test_hrd_14_an_approval_by_command_takes_the_approvers_password"),
    ),
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
        "runs/cancel/cancellation.py",
        "    if reason is not ReasonCode.CANCELED_BY_OPERATOR:\n",
        "    if reason is not None:\n",
        every_act(EVERY_ACT + "[console runs.run cancel]"),
    ),
)
