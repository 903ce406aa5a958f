"""Faults on the way from an event to its receiver: what is written, who gets room, what a mark may do."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

TELLING: Final = "runs/telling.py"
MESSAGES: Final = "tenants/webhooks/messages.py"
FANOUT: Final = "tenants/webhooks/dispatch/fanout.py"
CLAIMS: Final = "tenants/webhooks/dispatch/claims.py"
MARKS: Final = "tenants/webhooks/dispatch/marks.py"
BREAKER: Final = "tenants/webhooks/dispatch/breaker.py"
SCHEDULE: Final = "tenants/webhooks/dispatch/schedule.py"
SENDING: Final = "tenants/webhooks/dispatch/sending.py"
LOW: Final = "tenants/webhooks/low_balance.py"

messages = In("integration/webhooks/test_webhook_messages")
claims = In("integration/webhooks/test_webhook_claims")
sending = In("integration/webhooks/test_webhook_sending")
low = In("integration/webhooks/test_webhook_budget_low")
steps = In("unit/test_webhook_schedule")

MUTANTS: Final = (
    Mutant(
        "a webhook hears of a run that its caller never got",
        TELLING,
        "CASE WHEN reason IN ({listed_reasons(untold)}) THEN NULL WHEN status",
        "CASE WHEN reason IN ({listed_reasons(untold)}) THEN 'run.failed' WHEN status",
        messages("test_hook_01_a_run_that_its_caller_never_got_tells_nothing"),
    ),
    Mutant(
        "what happens while a webhook is paused is not written for it",
        MESSAGES,
        "deleted_at IS NULL AND told.event = ANY (events))",
        "deleted_at IS NULL AND status = 'ENABLED' AND told.event = ANY (events))",
        messages("test_hook_01_an_end_is_told_once_whatever_the_endpoints_status"),
    ),
    Mutant(
        "a webhook is resumed between the fan-out's look and its commit",
        FANOUT,
        "       FOR SHARE SKIP LOCKED\n",
        "",
        claims("test_hook_05_what_is_held_while_its_endpoint_is_resumed_is_not_left_behind"),
    ),
    Mutant(
        "a webhook of a tenant with a locked one is passed over for good",
        FANOUT,
        "FROM taken JOIN whole USING (tenant_id) WHERE webhook_message",
        "FROM taken WHERE webhook_message",
        claims("test_a_locked_endpoint_holds_up_its_own_tenant_alone"),
    ),
    Mutant(
        "two webhook senders share out the same room",
        CLAIMS,
        "        advisory_lock.lock_until_commit(_TURNS)\n",
        "",
        claims("test_hook_04_two_senders_at_once_never_have_more_than_there_is_room_for"),
    ),
    Mutant(
        "a tenant's doubtful webhooks have all of its room",
        CLAIMS,
        "WHERE NOT doubtful OR place <= {OF_TENANT_DOUBTFUL_MAX}",
        "WHERE NOT doubtful OR place <= {OF_TENANT_MAX}",
        claims("test_hook_04_a_tenant_has_eight_in_flight_four_of_them_doubtful"),
    ),
    Mutant(
        "a webhook sender that lost its lease marks all the same",
        MARKS,
        " AND lease_token = %(lease_token)s AND",
        " AND",
        sending("test_hook_08_who_lost_the_lease_marks_nothing"),
    ),
    Mutant(
        "a webhook sender that froze sends under a lease that is over",
        SENDING,
        "            if time.monotonic() < until:\n",
        "            if until:\n",
        sending("test_hook_08_a_sender_that_froze_after_its_claim_sends_nothing"),
    ),
    Mutant(
        "one quick answer gives a webhook that hangs its room back",
        BREAKER,
        "now - slow_at >= SLOW_FOR",
        "slow_at < now",
        steps("test_hook_04_what_was_slow_is_so_until_it_has_been_quick_for_five_minutes"),
    ),
    Mutant(
        "names of new webhooks take lookups from the others",
        SENDING,
        "network = world.doubtful if claimed.doubtful else world.proven",
        "network = world.proven",
        sending("test_hook_04_a_dead_name_server_of_a_new_endpoint_takes_no_lookup_from_a_proven_one"),
    ),
    Mutant(
        "one outage disables a webhook that is seldom used",
        BREAKER,
        "now - since >= FAILED_AGAIN_AFTER",
        "since < now",
        steps("test_hook_05_the_second_failure_counts_twelve_hours_after_the_first"),
    ),
    Mutant(
        "a webhook's receiver may ask to be tried sooner than the schedule",
        SCHEDULE,
        "    return max(step, retry_after)\n",
        "    return retry_after or step\n",
        steps("test_hook_03_a_receiver_may_ask_for_longer_and_not_for_shorter"),
    ),
    Mutant(
        "a balance about its line tells a webhook again and again",
        LOW,
        "CLEARED_AT_PERCENT: Final = 110",
        "CLEARED_AT_PERCENT: Final = 100",
        low("test_hook_01_a_balance_about_the_line_is_told_once_until_it_is_a_tenth_above"),
    ),
)
