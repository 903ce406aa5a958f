"""Faults at the edge of webhooks: what people register, rotate, hold, recover and read."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

REGISTRATION: Final = "tenants/webhooks/registration.py"
SERVICES: Final = "tenants/webhooks/services.py"
TRANSITIONS: Final = "tenants/webhooks/transitions.py"
SIGNING: Final = "tenants/webhooks/signing.py"
SECRETS: Final = "tenants/webhooks/signing_secrets.py"
SELECTORS: Final = "tenants/webhooks/selectors.py"
RETENTION: Final = "tenants/webhooks/retention.py"

acts = In("integration/webhooks/test_webhook_acts")
api = In("integration/webhooks/test_webhook_api")
releasing = In("integration/webhooks/test_webhook_releasing")
operators = In("integration/webhooks/test_webhook_operators")
registration = In("integration/webhooks/test_webhook_registration")
rivals = In("race/test_webhook_rivals")
receiver = In("integration/webhooks/test_webhook_receiver")

MUTANTS: Final = (
    Mutant(
        "creations of one tenant do not wait for each other",
        SERVICES,
        "Tenant.objects.select_for_update(no_key=True)",
        "Tenant.objects",
        rivals("test_hook_07_fifty_creations_at_once_make_ten", "test_hook_07_fifty_creations_under_one_key_make_one"),
    ),
    Mutant(
        "a second rotation within the day ends a secret that is in use",
        SERVICES,
        "ending.filter(expires_at__gt=now).first()",
        "ending.filter(expires_at__lt=now).first()",
        acts("test_hook_07_a_rotation_leaves_two_live_for_a_day_and_no_third"),
    ),
    Mutant(
        "a secret opens at any webhook",
        SECRETS,
        '    return b"webhook secret of " + endpoint_id.bytes\n',
        '    return b"webhook secret of "\n',
        acts("test_hook_07_a_secret_is_shown_once_and_lies_encrypted_bound_to_its_endpoint"),
    ),
    Mutant(
        "the trail keeps the token of a URL",
        SERVICES,
        'facts | ({"url": registration.endpoint_origin(facts["url"])} if "url" in facts else {})',
        "facts",
        acts("test_hook_07_a_secret_and_the_urls_token_stand_in_no_log_trail_or_repr"),
    ),
    Mutant(
        "a pause takes a delivery out of its sender's hands",
        TRANSITIONS,
        "WebhookDelivery.objects.filter(~in_flight, endpoint_id",
        "WebhookDelivery.objects.filter(endpoint_id",
        acts("test_hook_05_a_pause_holds_what_waits_and_a_resume_sends_it"),
    ),
    Mutant(
        "a recovery goes by when a delivery was made, not by when it happened",
        TRANSITIONS,
        "message__at__gte=endpoint.release_since",
        "created_at__gte=endpoint.release_since",
        acts("test_hook_05_a_disabled_one_is_recovered_with_what_it_missed_since"),
    ),
    Mutant(
        "acts on one webhook do not wait for each other",
        TRANSITIONS,
        "WebhookEndpoint.objects.select_for_update(no_key=True)",
        "WebhookEndpoint.objects.all()",
        rivals(
            "test_hook_07_of_two_rotations_at_once_one_gets_a_secret",
            "test_hook_05_a_fan_out_that_read_paused_is_waited_for_by_the_resume",
        ),
    ),
    Mutant(
        "a caller learns which names lead inside",
        REGISTRATION,
        "    return _NOT_PUBLIC if refused.typed_ip is not None else _UNRESOLVED\n",
        "    return _NOT_PUBLIC if refused.reason in set(Blocked) else _UNRESOLVED\n",
        registration("test_hook_06_names_of_the_inside_have_one_answer_wherever_they_lead"),
    ),
    Mutant(
        "names that do not answer take all threads of a process",
        REGISTRATION,
        "    if not _turns.acquire(timeout=TURN_SECONDS):\n",
        "    if not _turns.acquire(timeout=60):\n",
        registration("test_hook_06_names_that_never_answer_hold_two_threads_of_a_process_and_no_more"),
    ),
    Mutant(
        "a delivery of another tenant is sent again",
        SELECTORS,
        "delivery_id=delivery_id, endpoint__tenant_id=tenant_id, endpoint__deleted_at__isnull=True",
        "delivery_id=delivery_id, endpoint__deleted_at__isnull=True",
        acts("test_hook_07_another_tenants_webhook_is_none"),
    ),
    Mutant(
        "the page after one with two of a moment leaves one out",
        SELECTORS,
        "Q(created_at=after.at, delivery_id__lt=after.id)",
        "Q(created_at__lt=after.at, delivery_id__lt=after.id)",
        api("test_hook_07_deliveries_are_read_page_by_page_and_by_status"),
    ),
    Mutant(
        "what was recovered on its last day is deleted on its way",
        RETENTION,
        "WebhookDelivery.objects.filter(~on_its_way, created_at__lt=cutoff)",
        "WebhookDelivery.objects.filter(created_at__lt=cutoff)",
        operators("test_hook_05_retention_keeps_what_may_still_be_sent_and_lets_the_rest_go"),
    ),
    Mutant(
        "a secret that was rotated meanwhile is put back",
        "tenants/webhooks/encrypting.py",
        "WebhookSecret.objects.filter(pk=secret.pk, ciphertext=secret.ciphertext)",
        "WebhookSecret.objects.filter(pk=secret.pk)",
        operators("test_hook_07_a_secret_that_was_rotated_meanwhile_is_left"),
    ),
    Mutant(
        "the console shows a URL whole",
        "tenants/webhooks/admin.py",
        "        return registration.endpoint_origin(endpoint.url)\n",
        "        return endpoint.url\n",
        operators("test_hook_07_no_command_and_no_page_shows_a_secret_or_what_follows_a_urls_host"),
    ),
    Mutant(
        "a recovery lets go of what fails after it, again and again",
        TRANSITIONS,
        "Q(status=DeliveryStatus.FAILED, ended_at__lte=endpoint.release_failed_until)",
        "Q(status=DeliveryStatus.FAILED)",
        releasing("test_hook_05_a_recovery_lets_go_once_of_what_had_failed_by_then"),
    ),
    Mutant(
        "a recovery during a resume forgets what is older",
        TRANSITIONS,
        'Least("release_since", Value(since))',
        "Value(since)",
        releasing("test_hook_05_a_recovery_during_a_resume_leaves_nothing_behind"),
    ),
    Mutant(
        "a resume forgets the rest of many",
        TRANSITIONS,
        "    if released < AT_ONCE:\n",
        "    if released <= AT_ONCE:\n",
        releasing("test_hook_05_a_resume_lets_go_of_the_first_and_the_job_of_the_rest"),
    ),
    Mutant(
        "only the newest secret signs",
        SIGNING,
        "for secret in secrets)",
        "for secret in secrets[:1])",
        receiver("test_hook_02_the_receiver_of_the_page_verifies_and_does_each_thing_once"),
    ),
)
