"""A run's data are deleted on request: what automations copied of them goes in the same transaction (DPP-92)."""

import json
from typing import Any

import pytest
from django.apps import apps

from ops.automations import transitions
from ops.automations.messages import message_steps
from ops.automations.models import AutomationAttempt, AutomationMessage, AutomationResult
from ops.automations.states import MessageStatus
from ops.automations.tasks import ending
from ops.automations.transitions import CasOutcome
from runs.box.box import Box
from runs.bucket import storage
from runs.finish import data_deletion
from runs.models import Run
from tenants.models import Tenant
from tests.gear.builders import automations as gear
from tests.gear.builders.automation_shop import AutomationShop, an_automation_shop
from tests.gear.builders.recovery import tenant
from tests.gear.builders.work import session_box, worker_here

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("DPP-92", "LIF-03")]
__all__ = ["session_box", "tenant", "worker_here"]
DELETED = "the run's data were deleted"


@pytest.fixture
def shop(tenant: Tenant, worker_here: Box) -> AutomationShop:
    return an_automation_shop(tenant)


def delete(run: Run) -> None:
    answer = data_deletion.delete_run_data(tenant_id=run.tenant_id, run_id=run.pk, actor="owner")
    assert isinstance(answer, data_deletion.DataDeleted)


def kept(shop: AutomationShop) -> tuple[Any, ...]:
    (result,) = shop.results()
    return result.outcome, result.summary, result.data, result.session_id, result.session_log, shop.only_task().inputs


def test_dpp_92_inputs_result_and_message_go_with_the_run(shop: AutomationShop) -> None:
    shop.rule()
    shop.event()
    shop.turn()
    assert kept(shop)[2] is not None
    (told,) = shop.bodies()
    delete(Run.objects.get())
    assert kept(shop) == ("SUCCEEDED", DELETED, None, "", None, None)
    (said,) = AutomationMessage.objects.all()
    assert (said.status, said.kind, said.body) == ("PENDING", "RESULT", f"{told.splitlines()[0]}\n{DELETED}")
    task = shop.only_task()
    assert (task.outcome, shop.charged_micros()) == ("SUCCEEDED", 50_000)
    delete(Run.objects.get())
    assert [one.pk for one in AutomationMessage.objects.all()] == [said.pk], "again it changes nothing"
    assert shop.only_task().version == task.version


def test_dpp_92_a_message_that_was_sent_goes_and_none_comes_instead(shop: AutomationShop) -> None:
    shop.rule()
    shop.event()
    shop.turn()
    AutomationMessage.objects.update(status=MessageStatus.SENT, ended_at="2026-03-01T03:00:00Z", version=1)
    delete(Run.objects.get())
    assert AutomationMessage.objects.count() == 0


def test_dpp_92_a_sender_that_holds_the_message_marks_nothing(shop: AutomationShop) -> None:
    """What is on its way arrives; its row is gone, and so is its mark."""
    shop.rule()
    shop.event()
    shop.turn()
    (held,) = message_steps.claim_automation_messages(channels=["slack"], limit=10)
    delete(Run.objects.get())
    assert message_steps.mark_message_sent(held, external_id="1.1", thread="1.1") is CasOutcome.LOST
    assert [one.status for one in AutomationMessage.objects.all()] == ["PENDING"]


def test_dpp_92_another_tasks_copies_stay(shop: AutomationShop) -> None:
    shop.rule()
    for number in range(2):
        shop.event(f"e-{number}")
    shop.turn()
    one, other = AutomationResult.objects.order_by("pk")
    delete(Run.objects.get(pk=str(one.run_id)))
    other.refresh_from_db()
    assert (other.summary == DELETED, other.data is None, other.task.inputs is None) == (False, False, False)
    assert AutomationMessage.objects.count() == 2


def test_dpp_92_a_failed_attempts_run_takes_the_inputs_and_no_further_one_begins(shop: AutomationShop) -> None:
    shop.rule(retries=2)
    shop.event(payload={"fail": True})
    shop.turn()
    delete(Run.objects.get())
    for _ in range(2):
        shop.turn()
    task = shop.only_task()
    assert (task.inputs, task.outcome, len(shop.attempts())) == (None, "FAILED", 1)
    assert Run.objects.count() == 1


def test_dpp_92_what_was_said_of_a_task_that_failed_stays(shop: AutomationShop) -> None:
    """Its reason, and nothing of a result: deleted and said anew it would arrive twice."""
    shop.rule(retries=0)
    shop.event(payload={"fail": True})
    for _ in range(2):
        shop.turn()
    said = list(AutomationMessage.objects.values())
    assert [one["kind"] for one in said] == ["RESULT"]
    for _ in range(2):
        delete(Run.objects.get())
    assert list(AutomationMessage.objects.values()) == said
    assert shop.only_task().inputs is None


def test_dpp_92_inputs_go_where_the_deletion_came_before_the_attempt_knew_its_run(
    shop: AutomationShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(**_: object) -> None:
        raise RuntimeError

    shop.rule()
    shop.event()
    monkeypatch.setattr(transitions, "accept_attempt", fails)
    shop.buy()
    monkeypatch.undo()
    shop.work()
    delete(Run.objects.get())
    AutomationAttempt.objects.update(next_try_at=gear.AT)
    for _ in range(2):
        shop.turn()
    assert kept(shop) == ("SUCCEEDED", DELETED, None, "", None, None)


def test_dpp_92_an_end_that_read_the_envelope_before_copies_nothing_of_it(
    shop: AutomationShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.rule()
    shop.event()
    shop.buy()
    shop.work()
    read = ending.answer_of_run

    def reads_and_is_overtaken(run: Run) -> Any:
        answer = read(run)
        delete(run)
        return answer

    monkeypatch.setattr(ending, "answer_of_run", reads_and_is_overtaken)
    ending.end_due(limit=10)
    assert kept(shop)[:5] == ("SUCCEEDED", DELETED, None, "", None)
    assert DELETED in shop.bodies()[0]


def test_dpp_92_nothing_of_the_result_stands_in_any_row_of_automations(shop: AutomationShop) -> None:
    shop.rule(inputs={"text": {"$": "event.word"}, "rules": [{"id": "r", "type": "secret"}]}, pack_type="compliance")
    shop.event(payload={"word": "plain"})
    shop.turn()
    run = Run.objects.get()
    envelope = json.loads(storage.shared_run_storage().read(str(run.result_key), max_bytes=1_000_000))
    word = next(iter(envelope["data"]))
    delete(run)
    for model in apps.get_app_config("automations").get_models():
        if model.__name__ not in {"AutomationEvent", "AutomationRule"}:
            assert word not in str(list(model._default_manager.values())), model.__name__
