"""What an operator does to open runs in the console: ends them, or has their message sent again (DPP-75)."""

import uuid
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.contrib.messages import get_messages
from django.test import Client

from dpp_project.aws import sqs_sender
from dpp_project.aws.sqs_sender import SendFailed
from runs import transitions
from runs.models import Run
from runs.operators.interventions import SELECTED_MAX
from tests.gear.builders import recovery
from tests.gear.builders import runs as gear
from tests.gear.builders.recovery import FUNDS_MICROS
from tests.gear.builders.shop import Shop, messages

pytestmark = [pytest.mark.contract("DPP-75"), pytest.mark.usefixtures("shop")]
RUNS = "/admin/runs/run/"
FEE_MICROS = 5_000


def queued(shop: Shop) -> Run:
    run = gear.row(uuid.UUID(shop.submit().json()["run_id"]))
    assert [message["run_id"] for message in messages()] == [str(run.run_id)]
    return run


def working(shop: Shop) -> Run:
    run = queued(shop)
    gear.won(transitions.start(run_id=run.run_id, version=run.version, lease_token="lease", actor="worker"))
    return gear.row(run.run_id)


def act_on(console: Client, run: Run, what: str) -> list[str]:
    response: Any = console.post(f"{RUNS}{run.run_id}/{what}/")
    assert response.status_code == 302
    return [str(message) for message in get_messages(response.wsgi_request)]


def select(console: Client, action: str, *runs: Run, confirmed: bool) -> Any:
    sent: dict[str, Any] = {"action": action, "_selected_action": [str(run.run_id) for run in runs]}
    return console.post(RUNS, sent | ({"confirmed": "1"} if confirmed else {}))


def told(response: Any) -> list[str]:
    assert response.status_code == 302
    return [str(message) for message in get_messages(response.wsgi_request)]


@pytest.mark.contract("DPP-27")
def test_dpp_75_an_operator_ends_a_queued_run_for_nothing(console: Client, shop: Shop) -> None:
    run = queued(shop)
    before = gear.everything(run.run_id)
    asked = console.get(f"{RUNS}{run.run_id}/cancel/")
    assert "This cannot be taken back" in asked.content.decode()
    assert gear.everything(run.run_id) == before, "asking changes nothing"
    assert act_on(console, run, "cancel") == ["Ended: 1 run."]
    ended = gear.row(run.run_id)
    assert (ended.status, ended.money_state) == ("FAILED", "REFUNDED")
    assert (ended.last_error_reason_code, ended.last_actor) == ("CANCELED_BY_OPERATOR", "operator:ada")
    assert (shop.holds(), shop.balance_micros(), recovery.charges(run)) == ({}, FUNDS_MICROS, [])
    recovery.law_holds(shop.tenant)
    assert LogEntry.objects.filter(object_id=str(run.run_id), user__username="ada").count() == 1
    problem = shop.get(f"/v1/runs/{run.run_id}").json()["result"]["problem"]
    assert problem["title"] == "Canceled by an operator"


@pytest.mark.contract("DPP-27")
def test_dpp_75_an_operator_ends_a_run_at_work_at_its_fee(console: Client, shop: Shop) -> None:
    run = working(shop)
    assert act_on(console, run, "cancel") == ["Ended: 1 run."]
    assert gear.row(run.run_id).money_state == "SETTLED"
    assert shop.balance_micros() == FUNDS_MICROS - FEE_MICROS
    assert recovery.charges(run) == [-FEE_MICROS]


def test_dpp_75_an_operator_has_a_message_sent_again(console: Client, shop: Shop) -> None:
    run = queued(shop)
    before = gear.everything(run.run_id)
    assert console.get(f"{RUNS}{run.run_id}/requeue/").status_code == 200
    assert messages() == []
    assert act_on(console, run, "requeue") == ["Sent again: 1 run."]
    assert [message["run_id"] for message in messages()] == [str(run.run_id)]
    assert gear.everything(run.run_id) == before, "the row is left as it is"
    assert LogEntry.objects.filter(object_id=str(run.run_id)).count() == 1


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("cancel", "Not ended: {}, it is FAILED REFUNDED COMMITTED."),
        ("requeue", "Not sent: {}, it is FAILED REFUNDED COMMITTED and waits for no message."),
    ],
)
def test_dpp_75_what_has_ended_is_left_alone_and_not_offered(console: Client, shop: Shop, what: str, said: str) -> None:
    run = queued(shop)
    shop.cancel(str(run.run_id))
    before = gear.everything(run.run_id)
    assert act_on(console, run, what) == [said.format(run.run_id)]
    assert gear.everything(run.run_id) == before
    assert messages() == []
    assert not LogEntry.objects.exists()
    assert f"{run.run_id}/{what}/" not in console.get(f"{RUNS}{run.run_id}/change/").content.decode()


def test_dpp_75_only_what_fits_is_offered(console: Client, shop: Shop) -> None:
    waiting, at_work = queued(shop), working(shop)
    page = console.get(f"{RUNS}{waiting.run_id}/change/").content.decode()
    assert f"{waiting.run_id}/cancel/" in page
    assert f"{waiting.run_id}/requeue/" in page
    page = console.get(f"{RUNS}{at_work.run_id}/change/").content.decode()
    assert f"{at_work.run_id}/cancel/" in page
    assert f"{at_work.run_id}/requeue/" not in page


def test_dpp_75_a_queue_that_does_not_answer_is_told(
    console: Client, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = queued(shop)

    def fail(_message: Any) -> None:
        raise SendFailed("no answer")

    monkeypatch.setattr(sqs_sender.shared_sender(), "send", fail)
    [said] = act_on(console, run, "requeue")
    assert said.startswith(f"Not sent: {run.run_id}, the queue did not take its message")


def test_dpp_75_several_runs_are_ended_after_one_question(console: Client, shop: Shop) -> None:
    runs = [queued(shop), working(shop), queued(shop)]
    shop.cancel(str(runs[2].run_id))
    before = [gear.everything(run.run_id) for run in runs]
    asked = select(console, "cancel_selected", *runs, confirmed=False)
    assert asked.status_code == 200
    page = asked.content.decode()
    assert all(f'name="_selected_action" value="{run.run_id}"' in page for run in runs)
    assert [gear.everything(run.run_id) for run in runs] == before
    said = told(select(console, "cancel_selected", *runs, confirmed=True))
    assert said == ["Ended: 2 runs.", f"Not ended: {runs[2].run_id}, it is FAILED REFUNDED COMMITTED."]
    assert [gear.row(run.run_id).last_error_reason_code for run in runs] == [
        *["CANCELED_BY_OPERATOR"] * 2,
        "CANCELED_BY_OWNER",
    ]
    recovery.law_holds(shop.tenant)


def test_dpp_75_several_messages_are_sent_again_after_one_question(console: Client, shop: Shop) -> None:
    runs = [queued(shop), queued(shop), working(shop)]
    assert select(console, "requeue_selected", *runs, confirmed=False).status_code == 200
    assert messages() == []
    said = told(select(console, "requeue_selected", *runs, confirmed=True))
    assert said == [
        "Sent again: 2 runs.",
        f"Not sent: {runs[2].run_id}, it is PROCESSING RESERVED and waits for no message.",
    ]
    assert {message["run_id"] for message in messages()} == {str(run.run_id) for run in runs[:2]}


def test_dpp_75_too_many_at_once_are_refused(console: Client, shop: Shop) -> None:
    runs = [gear.reserved(tenant_id=shop.tenant.tenant_id) for _ in range(SELECTED_MAX + 1)]
    said = told(select(console, "cancel_selected", *runs, confirmed=True))
    assert said == ["Nothing was changed: select 100 runs at most at a time."]
    assert not Run.objects.exclude(finalize_stage=None).exists()


@pytest.mark.parametrize("what", ["cancel", "requeue"])
def test_dpp_75_who_may_only_look_changes_nothing(shop: Shop, what: str) -> None:
    viewer = User.objects.create_user("bob", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_run"))
    client = Client()
    client.force_login(viewer)
    run = queued(shop)
    before = gear.everything(run.run_id)
    page = client.get(f"{RUNS}{run.run_id}/change/").content.decode()
    assert f"{run.run_id}/{what}/" not in page
    assert client.post(f"{RUNS}{run.run_id}/{what}/").status_code == 403
    assert f"{what}_selected" not in client.get(RUNS).content.decode()
    select(client, f"{what}_selected", run, confirmed=True)
    assert gear.everything(run.run_id) == before
    assert messages() == []


def test_dpp_75_no_other_site_can_press_the_button(shop: Shop) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("ada"))
    run = queued(shop)
    assert client.post(f"{RUNS}{run.run_id}/cancel/").status_code == 403
    assert gear.row(run.run_id).finalize_stage is None


@pytest.mark.parametrize(
    "path", ["nonsense/change/", "nonsense/cancel/", "01980000-0000-7000-8000-000000000000/requeue/"]
)
def test_dpp_75_an_address_of_no_run_is_no_fault_of_ours(console: Client, path: str) -> None:
    assert console.get(f"{RUNS}{path}").status_code in {302, 404}
