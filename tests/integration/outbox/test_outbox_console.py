"""Events and their dead letters in the console: read, and sent again by who may."""

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from dpp_project.audit.models import AuditEntry
from dpp_project.outbox.models import EventDeadLetter
from tests.gear.builders import events as gear
from tests.gear.builders.console import page

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("AUT-07")]

LETTERS = "/admin/outbox/eventdeadletter/"


def test_aut_07_one_page_shows_both_kinds_of_dead_letters(console: Client) -> None:
    letter = gear.a_letter(status="DEAD")
    shown = page(console, "/admin/reaper/deadletter/")
    assert f'href="{LETTERS}{letter.pk}/change/"' in shown
    assert "All dead letters of events (1 not sent again)" in shown
    assert "Dead letters of events not sent again" in page(console, "/admin/")


def test_aut_07_who_may_not_see_events_letters_sees_the_runs_alone(client: Client) -> None:
    letter = gear.a_letter(status="DEAD")
    viewer = User.objects.create_user("vic", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_deadletter"))
    client.force_login(viewer)
    assert "Dead letters of events" not in page(client, "/admin/reaper/deadletter/")
    assert client.get(f"{LETTERS}{letter.pk}/change/").status_code == 403


def test_aut_07_a_letter_is_shown_as_text_and_changed_by_none(console: Client) -> None:
    letter = gear.a_letter(status="DEAD")
    EventDeadLetter.objects.filter(pk=letter.pk).update(body=b"<script>alert(1)</script>\xff")
    shown = page(console, f"{LETTERS}{letter.pk}/change/")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\xff" in shown
    assert "<script>alert(1)" not in shown
    assert console.post(f"{LETTERS}{letter.pk}/change/", {"reason": "NOT_JSON"}).status_code == 403
    assert console.post(f"{LETTERS}{letter.pk}/delete/").status_code == 403


def test_aut_07_sending_again_asks_first(console: Client) -> None:
    letter = gear.a_letter(status="DEAD")
    assert "handled anew" in page(console, f"{LETTERS}{letter.pk}/send_again/")
    assert not AuditEntry.objects.exists()
    assert console.post(f"{LETTERS}{letter.pk}/send_again/").status_code == 302
    letter.refresh_from_db()
    assert (letter.redriven_by, AuditEntry.objects.get().actor) == ("operator:ada", "operator:ada")


def test_aut_07_who_may_only_look_sends_nothing(client: Client) -> None:
    letter = gear.a_letter(status="DEAD")
    viewer = User.objects.create_user("vic", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_eventdeadletter"))
    client.force_login(viewer)
    assert "Send again" not in page(client, f"{LETTERS}{letter.pk}/change/")
    assert client.post(f"{LETTERS}{letter.pk}/send_again/").status_code == 403
    letter.refresh_from_db()
    assert letter.redriven_at is None


def test_aut_05_an_events_page_shows_its_way(console: Client) -> None:
    letter = gear.a_letter(status="DEAD")
    shown = page(console, f"/admin/outbox/outboxmessage/{letter.outbox_id}/change/")
    assert "DEAD, retried 0 times, unknown" in shown
    assert str(letter.outbox_id) in page(console, f"/admin/outbox/outboxmessage/?q={letter.outbox_id}")
