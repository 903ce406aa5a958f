"""Dead letters in the console and on the command line: seen, and sent again by a person (DPP-45, DPP-75, DPP-76)."""

import io
import json
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client

from dpp_project.aws import clients, queue_depth
from dpp_project.aws.sqs_sender import Unreachable
from dpp_project.settings import ENV
from reaper import dead_letters, redrive
from reaper.models import DeadLetter
from runs import transitions
from runs.models import Run
from runs.submit import wake_worker
from runs.submit.wake_worker import Wakeup
from tenants.models import Tenant
from tests.gear.builders import recovery
from tests.gear.builders import runs as gear
from tests.gear.builders.console import page

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("DPP-45")]

LETTERS = "/admin/reaper/deadletter/"


def letter_of(run: Run) -> DeadLetter:
    clients.sqs_client().send_message(QueueUrl=ENV.DPP_DLQ_URL, MessageBody=Wakeup.of(run).message().body)
    recovery.run_loop(dead_letters.consume_dead_letters)
    clients.sqs_client().purge_queue(QueueUrl=ENV.DPP_QUEUE_URL)
    return DeadLetter.objects.get(run_id=run.run_id)


def poison(body: str) -> DeadLetter:
    clients.sqs_client().send_message(QueueUrl=ENV.DPP_DLQ_URL, MessageBody=body)
    recovery.run_loop(dead_letters.consume_dead_letters)
    return DeadLetter.objects.get(outcome="POISON")


def sent() -> int:
    return queue_depth.queue_depth_of(ENV.DPP_QUEUE_URL)[0]


def by_hand(*arguments: str) -> dict[str, Any]:
    out = io.StringIO()
    call_command("dlq", *arguments, "--json", stdout=out)
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer


@pytest.mark.contract("DPP-75")
def test_dpp_75_the_console_lists_and_shows_letters_and_changes_none(console: Client, tenant: Tenant) -> None:
    run = recovery.queued(tenant)
    letter = letter_of(run)
    assert str(run.run_id) in page(console, LETTERS)
    assert str(run.run_id) in page(console, f"{LETTERS}?q={tenant.tenant_id}")
    assert str(run.run_id) not in page(console, f"{LETTERS}?outcome__exact=POISON")
    shown = page(console, f"{LETTERS}{letter.pk}/change/")
    assert str(run.run_id) in shown
    assert "Send again" in shown
    assert console.get(f"{LETTERS}add/").status_code == 403
    assert console.post(f"{LETTERS}{letter.pk}/change/", {"outcome": "KEPT"}).status_code == 403
    assert console.post(f"{LETTERS}{letter.pk}/delete/").status_code == 403


def test_the_bytes_of_poison_are_shown_as_text_and_never_as_markup(console: Client, tenant: Tenant) -> None:
    letter = poison("<script>alert(1)</script>")
    shown = page(console, f"{LETTERS}{letter.pk}/change/")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    assert "<script>alert(1)" not in shown


@pytest.mark.contract("DPP-75")
def test_dpp_75_sending_again_asks_first_and_then_wakes_the_run(console: Client, tenant: Tenant) -> None:
    letter = letter_of(recovery.queued(tenant))
    address = f"{LETTERS}{letter.pk}/send_again/"
    assert "comes back as a letter of its own" in page(console, address)
    assert sent() == 0
    assert console.post(address).status_code == 302
    letter.refresh_from_db()
    assert (sent(), letter.redriven_by, letter.redriven_at is not None) == (1, "operator:ada", True)
    assert LogEntry.objects.filter(object_id=str(letter.pk), change_message__contains="Sent again").count() == 1


@pytest.mark.contract("DPP-75")
def test_dpp_75_who_may_only_look_sends_nothing(client: Client, tenant: Tenant) -> None:
    letter = letter_of(recovery.queued(tenant))
    viewer = User.objects.create_user("vic", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_deadletter"))
    client.force_login(viewer)
    assert "Send again" not in page(client, f"{LETTERS}{letter.pk}/change/")
    assert client.post(f"{LETTERS}{letter.pk}/send_again/").status_code == 403
    assert sent() == 0


@pytest.mark.contract("DPP-76")
def test_dpp_76_dlq_lists_shows_and_redrives(tenant: Tenant) -> None:
    run = recovery.queued(tenant)
    letter = letter_of(run)
    other = poison("poison")
    assert [each["letter"] for each in by_hand("list")["letters"]] == [other.pk, letter.pk]
    assert [each["letter"] for each in by_hand("list", "--run", str(run.run_id))["letters"]] == [letter.pk]
    assert [each["letter"] for each in by_hand("list", "--limit", "1")["letters"]] == [other.pk]
    assert by_hand("show", str(letter.pk))["run_id"] == str(run.run_id)
    assert "poison" not in json.dumps(by_hand("show", str(other.pk))).replace("POISON", "")
    assert (by_hand("redrive", str(letter.pk), "--dry-run")["redriven_at"], sent()) == (None, 0)
    assert (by_hand("redrive", str(letter.pk))["redriven_by"], sent()) == ("command", 1)
    assert (by_hand("redrive", str(other.pk))["redriven_by"], sent()) == ("command", 2)


@pytest.mark.contract("DPP-76")
@pytest.mark.parametrize(
    "arguments",
    [
        ("redrive",),
        ("show", "999999"),
        ("redrive", "999999"),
        ("list", "--limit", "0"),
        ("list", "--limit", str(10**30)),
    ],
    ids=" ".join,
)
def test_dpp_76_dlq_refuses_in_words_with_exit_code_1(arguments: tuple[str, ...], tenant: Tenant) -> None:
    with pytest.raises(CommandError) as refused:
        by_hand(*arguments)
    assert refused.value.returncode == 1
    assert sent() == 0


def test_dpp_45_nothing_is_sent_for_a_run_that_needs_no_message(tenant: Tenant) -> None:
    letter = letter_of(recovery.lease_ran_out(tenant))
    refusal = redrive.redrive(letter, actor="test")
    assert refusal is not None
    assert refusal.detail == "its run is PROCESSING RESERVED and waits for no message"
    letter.refresh_from_db()
    assert (sent(), letter.redriven_at) == (0, None)


@pytest.mark.contract("HRD-08")
def test_dpp_45_nothing_is_sent_for_a_queued_run_that_is_being_ended(tenant: Tenant) -> None:
    run = recovery.queued(tenant)
    gear.won(transitions.claim_canceled(run=run, intent=gear.REFUND, actor="api"))
    refusal = redrive.redrive(letter_of(gear.row(run.run_id)), actor="test")
    assert refusal is not None
    assert refusal.detail == "its run is QUEUED RESERVED CLAIMED and waits for no message"
    assert sent() == 0


def test_dpp_45_poison_of_which_only_the_beginning_was_kept_is_not_sent(tenant: Tenant) -> None:
    refusal = redrive.redrive(poison("x" * 50_000), actor="test")
    assert refusal is not None
    assert "only the beginning of its 50000 bytes" in refusal.detail
    assert sent() == 0


@pytest.mark.contract("DPP-39")
def test_dpp_39_a_queue_that_is_away_is_said_and_the_letter_stays_unsent(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    letter = letter_of(recovery.queued(tenant))

    def refuse(_wakeup: Wakeup) -> None:
        raise Unreachable("no answer")

    monkeypatch.setattr(wake_worker, "send_wakeup", refuse)
    refusal = redrive.redrive(letter, actor="test")
    assert refusal is not None
    assert refusal.reason == "SERVICE_UNAVAILABLE"
    letter.refresh_from_db()
    assert letter.redriven_at is None


def test_dpp_45_a_run_redriven_in_vain_is_ended_and_refunded(tenant: Tenant) -> None:
    run = recovery.queued(tenant)
    assert redrive.redrive(letter_of(run), actor="test") is None
    clients.sqs_client().send_message(QueueUrl=ENV.DPP_DLQ_URL, MessageBody=Wakeup.of(run).message().body)
    assert recovery.run_loop(dead_letters.consume_dead_letters).changed == 1
    assert recovery.balance_micros(tenant) == recovery.FUNDS_MICROS


@pytest.mark.contract("DPP-75")
def test_dpp_75_the_first_page_counts_what_waits(console: Client, tenant: Tenant) -> None:
    from reaper import dashboard

    recovery.lease_ran_out(tenant)
    letter_of(recovery.queued(tenant))
    figures = {figure.label: figure.value for figure in dashboard.recovery_panel().figures}
    assert (figures["Expired leases"], figures["Dead letters not sent again"]) == ("1", "1")
    assert figures["Unfinished claims"] == "0"
    assert "Expired leases" in page(console, "/admin/")
