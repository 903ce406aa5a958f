"""From an event to its message: one task, one run for each attempt, one charge, one message."""

import json
from typing import Any, Final

import pytest
from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from ops.automations import answering, transitions
from ops.automations.messages import message_steps
from ops.automations.models import (
    AutomationAttempt,
    AutomationEvent,
    AutomationMessage,
    AutomationRule,
    AutomationTask,
    AwaitedAnswer,
    SeenEvent,
    ThreadMapping,
)
from ops.automations.states import MessageChannel
from ops.automations.tasks import bounds, buying, dispatching, ending
from runs.box.box import Box
from runs.bucket import storage
from runs.bucket.storage import RunStorage
from runs.models import Run
from runs.packs import registry
from tenants import services
from tenants.models import Tenant
from tests.gear.builders import automations as gear
from tests.gear.builders import recovery
from tests.gear.builders.automation_shop import AutomationShop, an_automation_shop, begun_ago, due_again
from tests.gear.builders.recovery import tenant  # noqa: F401  a fixture
from tests.gear.builders.work import session_box, worker_here  # noqa: F401  fixtures

pytestmark = pytest.mark.django_db(transaction=True)

DEEP: Final = "[" * 2_000 + "]" * 2_000
"""Some Pythons read it and cannot write it; 3.11 cannot read it."""


@pytest.fixture
def shop(tenant: Tenant, worker_here: Box) -> AutomationShop:  # noqa: F811
    return an_automation_shop(tenant)


@pytest.mark.contract("LIF-02")
def test_lif_02_an_event_becomes_a_message(shop: AutomationShop) -> None:
    shop.rule()
    event = shop.event(thread="issue-7")
    shop.turn()
    task, run = shop.only_task(), Run.objects.get()
    event.refresh_from_db()
    assert (event.status, event.outcome) == ("COMPLETED", "SUCCEEDED")
    assert SeenEvent.objects.get().outcome == "SUCCEEDED"
    assert (task.status, task.outcome, task.attempts, task.charged_usd_micros) == ("COMPLETED", "SUCCEEDED", 1, 50_000)
    assert (run.idempotency_key, run.status, run.lineage_id) == (f"{task.pk}:1", "COMPLETED", task.rule.lineage_id)
    assert run.price_version == registry.pack_named(run.pack_type).price_version
    assert shop.attempts() == [(1, "SUCCEEDED", 50_000)]
    assert shop.charged_micros() == 50_000
    (result,) = shop.results()
    assert (result.run_id, result.outcome) == (run.run_id, "SUCCEEDED")
    assert result.data == {"slept_ms": 0, "allocated_mb": 0, "child_pid": None}
    assert result.session_log == {"logs": {"discard_log": [], "blocked_log": []}, "problem": None}
    message = AutomationMessage.objects.get()
    assert (message.channel, message.target, message.status, message.key) == (
        "slack",
        "C01",
        "PENDING",
        f"result:{task.pk}",
    )
    assert message.body.startswith(f"triage {task.number} SUCCEEDED (1 run, 0.050000 USD)\n")


@pytest.mark.contract("LIF-02")
def test_lif_02_turns_that_come_twice_change_nothing_more(shop: AutomationShop) -> None:
    shop.rule()
    shop.event()
    for _ in range(3):
        shop.turn()
    assert (AutomationTask.objects.count(), Run.objects.count(), AutomationMessage.objects.count()) == (1, 1, 1)
    assert shop.charged_micros() == 50_000


@pytest.mark.contract("LIF-02")
def test_lif_02_the_ceiling_covers_all_attempts(shop: AutomationShop) -> None:
    """An attempt that fails is charged its fee; the next one may cost what is left, not the ceiling again."""
    shop.rule(retries=2)
    shop.event(payload={"fail": True, "cost": "0.1000"})
    for _ in range(4):
        shop.turn()
    task = shop.only_task()
    charges = [run.actual_cost_usd_micros or 0 for run in Run.objects.order_by("run_id")]
    reserved = [run.reservation_max_cost_usd_micros for run in Run.objects.order_by("run_id")]
    assert len(charges) == 3
    assert reserved[0] == 250_000
    for number in (1, 2):
        left = 250_000 - sum(charges[:number])
        assert reserved[number] == left - left % 100
    assert (task.outcome, task.attempts, task.charged_usd_micros) == ("FAILED", 3, sum(charges))
    assert shop.charged_micros() == sum(charges) <= 250_000
    assert AutomationEvent.objects.get().outcome == "FAILED"
    assert "FAILED (3 runs" in shop.bodies()[0]
    assert len(shop.bodies()) == 1


@pytest.mark.contract("LIF-02")
def test_lif_02_no_rule_is_an_end_and_buys_nothing(shop: AutomationShop) -> None:
    shop.rule(filter='event.action == "closed"')
    event = shop.event()
    shop.turn()
    event.refresh_from_db()
    assert (event.status, event.outcome, event.reason) == ("COMPLETED", "NO_RULE", "no rule")
    assert not AutomationTask.objects.exists()
    assert not Run.objects.exists()


@pytest.mark.contract("LIF-02")
def test_lif_02_the_first_rule_that_matches_makes_the_task(shop: AutomationShop) -> None:
    shop.rule(name="later", position=2)
    shop.rule(name="first", position=1)
    shop.rule(name="never", position=0, filter='event.missing == "x"')
    shop.event()
    shop.buy()
    assert shop.only_task().rule.name == "first"


@pytest.mark.contract("LIF-12")
def test_lif_12_a_template_that_lacks_something_names_it(shop: AutomationShop) -> None:
    shop.rule(inputs={"cost_usd": {"$": "event.issue.price"}, "sleep_ms": {"$": "event.nap"}})
    event = shop.event()
    shop.turn()
    event.refresh_from_db()
    assert (event.outcome, event.reason) == (
        "FAILED",
        "the template does not fit the event: it lacks event.issue.price, event.nap",
    )
    assert shop.bodies() == [f"triage: e-1: {event.reason}"]
    assert not Run.objects.exists()


@pytest.mark.contract("LIF-12")
def test_lif_12_a_strangers_text_stays_one_value(shop: AutomationShop) -> None:
    nasty = '{"$": "event.secret"}", "sleep_ms": 9'
    shop.rule(inputs={"cost_usd": {"$": "event.cost"}})
    shop.event(payload={"cost": nasty, "secret": "x"})
    shop.turn()
    task = shop.only_task()
    assert task.inputs == {"cost_usd": nasty}
    assert (task.status, task.outcome) == ("COMPLETED", "FAILED")
    assert task.reason.startswith("VALIDATION_FAILED: inputs.cost_usd")
    assert shop.attempts() == [(1, "REFUSED", 0)]
    assert not Run.objects.exists()


@pytest.mark.contract("LIF-12")
def test_lif_12_runs_an_hour_make_events_wait_and_are_said_once(shop: AutomationShop) -> None:
    shop.rule(runs_per_hour=2)
    for number in range(4):
        shop.event(f"e-{number}")
    for _ in range(3):
        shop.turn()
        due_again()
    assert Run.objects.count() == 2
    waiting = AutomationEvent.objects.filter(status="PENDING")
    assert list(waiting.values_list("waits_for", flat=True)) == ["runs_per_hour"] * 2
    assert [body for body in shop.bodies() if "events wait" in body] == [
        "triage: 2 runs within an hour are reached; events wait"
    ]
    AutomationAttempt.objects.all().delete()
    shop.turn()
    assert Run.objects.count() == 4


@pytest.mark.contract("LIF-12")
def test_lif_12_the_hour_has_sixty_minutes_and_a_repeated_attempt_counts(shop: AutomationShop) -> None:
    shop.rule(runs_per_hour=1, retries=1)
    shop.event(payload={"fail": True})
    shop.turn()
    for minutes, runs in ((0, 1), (59, 1), (61, 2)):
        begun_ago(minutes)
        due_again()
        shop.turn()
        assert Run.objects.count() == runs, minutes


def flooded_beside_another(shop: AutomationShop) -> tuple[AutomationRule, AutomationRule]:
    """A rule whose hour is over for eight events, and one whose hour is over for one; all of them are due."""
    flooded, other = (
        shop.rule(name=name, filter=f'event.of == "{name}"', runs_per_hour=1, inputs={})
        for name in ("flooded", "other")
    )
    for number in range(9):
        shop.event(f"f-{number}", payload={"of": "flooded"})
    for number in range(2):
        shop.event(f"o-{number}", payload={"of": "other"})
    dispatching.dispatch_due(limit=100)
    waiting = AutomationEvent.objects.filter(status="PENDING", waits_for="runs_per_hour").order_by("event_id")
    assert list(waiting.values_list("rule__name", flat=True)) == ["flooded"] * 8 + ["other"]
    due_again()
    return flooded, other


@pytest.mark.contract("LIF-12")
def test_lif_12_a_flood_that_waits_delays_no_new_event_and_no_other_rules(shop: AutomationShop) -> None:
    _, other = flooded_beside_another(shop)
    AutomationTask.objects.filter(rule=other).delete()  # its hour has room again
    shop.rule(name="third", filter='event.of == "third"', inputs={})
    shop.event("new", payload={"of": "third"})
    assert dispatching.dispatch_due(limit=3) == 3, "what is new, one of the flood, and the one that waits beside it"
    events = dict(AutomationEvent.objects.filter(event_id__in=["o-1", "new"]).values_list("event_id", "status"))
    assert events == {"o-1": "DISPATCHED", "new": "DISPATCHED"}
    flood = AutomationEvent.objects.filter(status="PENDING").order_by("event_pk")
    put_off = list(flood.filter(next_try_at__gt=Now()).values_list("event_id", flat=True))
    assert put_off == ["f-1"], "the oldest was looked at, and none beside it"


@pytest.mark.contract("LIF-12")
def test_lif_12_what_waits_is_found_by_its_index_whatever_else_is_kept() -> None:
    """In the order of all events' key, 300,000 of them were read each turn to find none that failed."""
    with transaction.atomic(), connection.cursor() as cursor:
        for way in ("seqscan", "bitmapscan", "sort"):
            cursor.execute(f"SET LOCAL enable_{way} = off")
        cursor.execute(f"EXPLAIN {dispatching._HELD}", [10, 10, 50])
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert plan.count("using idx_automation_event_held on automation_event") == 2, plan
    assert "automation_event_pkey" not in plan


@pytest.mark.contract("LIF-12")
def test_lif_12_what_waited_goes_on_oldest_first_where_there_is_room(shop: AutomationShop) -> None:
    flooded, _ = flooded_beside_another(shop)
    AutomationRule.objects.filter(pk=flooded.pk).update(runs_per_hour=4, version=F("version") + 1)
    dispatching.dispatch_due(limit=100)
    gone = AutomationEvent.objects.filter(rule=flooded, status="DISPATCHED").order_by("event_pk")
    assert list(gone.values_list("event_id", flat=True)) == ["f-0", "f-1", "f-2", "f-3"]
    AutomationRule.objects.filter(pk=flooded.pk).update(enabled=False, version=F("version") + 1)
    due_again()
    dispatching.dispatch_due(limit=100)
    dropped = AutomationEvent.objects.filter(outcome="NO_RULE")
    assert list(dropped.values_list("rule", flat=True)) == [None] * 5, "no rule dropped them"


@pytest.mark.contract("LIF-12")
def test_lif_12_a_rules_day_cap_makes_events_wait(shop: AutomationShop) -> None:
    shop.rule(usd_per_day="0.3000")
    for number in range(3):
        shop.event(f"e-{number}")
        shop.turn()
    assert Run.objects.count() == 2  # 0.05 were charged, so that 0.25 were left for the second
    assert AutomationEvent.objects.get(status="PENDING").waits_for == "money"
    assert sum("the rule's cap of 0.3000 USD a day" in body for body in shop.bodies()) == 1
    assert shop.charged_micros() == 100_000


@pytest.mark.contract("LIF-12")
def test_lif_12_what_a_look_lets_pass_the_hold_refuses(shop: AutomationShop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.rule(usd_per_day="0.2600")
    monkeypatch.setattr(bounds, "money_fault", lambda _rule: None)
    shop.event("e-1")
    shop.event("e-2")
    shop.buy()
    assert Run.objects.count() == 1
    assert sorted(shop.attempts()) == [(1, "OPEN", None), (1, "RUNNING", None)]
    assert "SPEND_CAP_REACHED" in AutomationAttempt.objects.get(status="OPEN").reason


@pytest.mark.contract("LIF-12")
def test_lif_12_a_loop_is_broken_and_said(shop: AutomationShop) -> None:
    shop.rule(thread_runs_per_hour=2)
    for number in range(4):
        shop.event(f"e-{number}", thread="issue-7")
        shop.turn()
    shop.event("other", thread="issue-8")
    shop.turn()
    assert Run.objects.count() == 3
    assert AutomationEvent.objects.filter(outcome="LOOP").count() == 2
    assert sum("taken for a loop" in body for body in shop.bodies()) == 1


@pytest.mark.contract("LIF-12")
def test_lif_12_our_own_doing_buys_nothing(shop: AutomationShop) -> None:
    shop.rule()
    shop.source.settings = {"own_actors": ["dpp-bot"]}
    shop.source.save()
    event = shop.event(actor="dpp-bot")
    shop.turn()
    event.refresh_from_db()
    assert event.outcome == "OWN_ACTOR"
    assert not Run.objects.exists()


@pytest.mark.contract("LIF-12")
def test_lif_12_a_tenant_that_did_not_enable_them_buys_nothing(shop: AutomationShop) -> None:
    shop.rule()
    Tenant.objects.update(automations_enabled=False)
    shop.event()
    shop.turn()
    assert AutomationEvent.objects.get().waits_for == "automations_enabled"
    assert not Run.objects.exists()


@pytest.mark.contract("LIF-02")
def test_lif_02_a_revoked_key_ends_the_task_unbought(shop: AutomationShop) -> None:
    rule = shop.rule()
    shop.event()
    dispatching.dispatch_due(limit=10)
    services.revoke_key(key_id=rule.key_id, actor="ada")
    shop.turn()
    assert shop.only_task().reason.startswith("AUTH_INVALID")
    assert not Run.objects.exists()


@pytest.mark.contract("LIF-08", "LIF-11")
def test_lif_08_an_answer_makes_a_task_that_resumes_and_mappings_go(shop: AutomationShop) -> None:
    shop.rule(
        awaits_answers=True,
        inputs={"cost_usd": "0.0100", "sleep_ms": {"$": "answer.text", "else": 1}},
    )
    shop.event(thread="issue-7")
    shop.turn()
    former = shop.only_task()
    (held,) = message_steps.claim_automation_messages(channels=["slack"], limit=5)
    assert held.message.kind == "QUESTION"
    message_steps.mark_message_sent(held, external_id="171.1", thread="171.1")
    assert AwaitedAnswer.objects.get().task_id == former.pk
    assert not ThreadMapping.objects.exists()

    def answer(event_id: str, text: Any) -> answering.AnswerOutcome:
        said = answering.record_message_answer(
            source=shop.source,
            event_id=event_id,
            channel=MessageChannel.SLACK,
            target="C01",
            thread="171.1",
            text=text,
            actor="U7",
            occurred_at=gear.AT,
        )
        assert isinstance(said, answering.Answered)
        return said.outcome

    assert answer("ev-1", 2) is answering.AnswerOutcome.TAKEN
    assert not AwaitedAnswer.objects.exists()
    assert answer("ev-2", 3) is answering.AnswerOutcome.NOT_AWAITED
    shop.buy()
    task = AutomationTask.objects.exclude(pk=former.pk).get()
    assert (task.resumes_id, task.rule_id, task.thread) == (former.pk, former.rule_id, "issue-7")
    assert task.inputs == {"cost_usd": "0.0100", "sleep_ms": 2}
    roots = dispatching.roots_of(AutomationEvent.objects.get(resumes_id=former.pk), task.rule)
    assert (roots["event"], roots["answer"]["text"]) == ({"action": "opened"}, 2)
    assert (roots["former"]["task"], roots["former"]["outcome"]) == (former.number, "SUCCEEDED")
    assert ThreadMapping.objects.get().thread == "171.1"
    shop.work()
    ending.end_due(limit=10)
    assert not ThreadMapping.objects.exists()
    assert AutomationMessage.objects.get(task=task).thread == "171.1"


@pytest.mark.contract("LIF-02")
def test_lif_02_what_died_after_the_submit_finds_its_run(shop: AutomationShop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.rule()
    shop.event()

    def dies(**_: object) -> None:
        raise recovery.Died

    monkeypatch.setattr(transitions, "accept_attempt", dies)
    with pytest.raises(recovery.Died):
        shop.buy()
    monkeypatch.undo()
    assert Run.objects.count() == 1
    assert shop.attempts() == [(1, "OPEN", None)]
    AutomationAttempt.objects.update(lease_until=gear.AT)
    shop.turn()
    assert Run.objects.count() == 1
    assert shop.attempts() == [(1, "SUCCEEDED", 50_000)]
    assert shop.charged_micros() == 50_000


@pytest.mark.contract("LIF-02")
def test_lif_02_a_run_that_stands_is_noted_before_a_refusal_ends_anything(
    shop: AutomationShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = shop.rule()
    shop.event()

    def dies(**_: object) -> None:
        raise recovery.Died

    monkeypatch.setattr(transitions, "accept_attempt", dies)
    with pytest.raises(recovery.Died):
        shop.buy()
    monkeypatch.undo()
    services.revoke_key(key_id=rule.key_id, actor="ada")
    AutomationAttempt.objects.update(lease_until=gear.AT)
    shop.turn()
    assert shop.attempts() == [(1, "SUCCEEDED", 50_000)]
    assert shop.charged_micros() == shop.only_task().charged_usd_micros == 50_000


@pytest.mark.contract("LIF-02")
def test_lif_02_a_death_between_two_attempts_loses_no_charge(
    shop: AutomationShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.rule()
    shop.event(payload={"fail": True})
    shop.turn()
    task = shop.only_task()
    (first,) = Run.objects.all()
    assert (task.status, task.attempts, task.charged_usd_micros) == ("IN_PROGRESS", 1, first.actual_cost_usd_micros)
    shop.turn()
    shop.turn()
    runs = list(Run.objects.order_by("run_id"))
    assert [run.idempotency_key for run in runs] == [f"{task.pk}:1", f"{task.pk}:2"]
    assert runs[1].reservation_max_cost_usd_micros == 250_000 - (first.actual_cost_usd_micros or 0)
    assert shop.charged_micros() == shop.only_task().charged_usd_micros


@pytest.mark.contract("LIF-02")
@pytest.mark.parametrize("retries", [1, 2])
def test_lif_02_a_look_that_comes_late_neither_begins_nor_ends_anything(shop: AutomationShop, retries: int) -> None:
    """Two processes find a task between two attempts; the second reads it when the first has begun the next."""
    shop.rule(retries=retries)
    shop.event(payload={"fail": True})
    shop.turn()
    task = shop.only_task()
    buying.go_on(task.pk)
    buying.go_on(task.pk)
    begun = [(attempt, status) for attempt, status, _ in shop.attempts()]
    assert begun == [(1, "FAILED"), (2, "OPEN")]
    assert (shop.only_task().status, shop.results(), shop.bodies()) == ("IN_PROGRESS", [], [])
    for _ in range(retries + 1):
        shop.turn()
    last = AutomationAttempt.objects.order_by("attempt").last()
    assert last is not None
    assert [(result.run_id, result.outcome) for result in shop.results()] == [(last.run_id, "FAILED")]
    assert shop.only_task().attempts == retries + 1


@pytest.mark.contract("LIF-02")
def test_lif_02_a_task_that_moved_since_it_was_read_is_not_ended(
    shop: AutomationShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.rule()
    shop.event(payload={"fail": True})
    shop.turn()
    task = shop.only_task()

    def rival(_task: AutomationTask) -> str:
        monkeypatch.undo()
        buying.go_on(task.pk)
        return "RULE_ENDED"

    monkeypatch.setattr(buying, "_no_more", rival)
    buying.go_on(task.pk)
    assert [(attempt, status) for attempt, status, _ in shop.attempts()] == [(1, "FAILED"), (2, "OPEN")]
    assert (shop.only_task().status, shop.results()) == ("IN_PROGRESS", [])


@pytest.mark.contract("LIF-02")
def test_lif_02_a_bucket_that_is_away_delays_the_result_alone(
    shop: AutomationShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.rule()
    shop.event()
    shop.buy()
    shop.work()

    def away(*_: object, **__: object) -> None:
        raise OSError("away")

    monkeypatch.setattr(RunStorage, "read", away)
    ending.end_due(limit=10)
    monkeypatch.undo()
    assert shop.attempts() == [(1, "RUNNING", None)]
    assert ending.end_due(limit=10) == 0
    due_again()
    ending.end_due(limit=10)
    assert shop.attempts() == [(1, "SUCCEEDED", 50_000)]
    assert len(shop.results()) == len(shop.bodies()) == 1


@pytest.mark.parametrize(
    ("data", "summary"),
    [
        (json.dumps({"stdout": "a\0b\ud800", "session_id": "\0"}), "a\ufffdb\ufffd"),
        (json.dumps({"\0": ["\0"]}), '{"\ufffd": ["\ufffd"]}'),
        (DEEP, "the result's envelope cannot be kept here"),
    ],
)
@pytest.mark.contract("LIF-02")
def test_lif_02_a_result_that_postgres_cannot_hold_ends_its_task(shop: AutomationShop, data: str, summary: str) -> None:
    shop.rule()
    shop.event()
    shop.buy()
    shop.work()
    run = Run.objects.get()
    envelope = f'{{"data": {data}, "logs": {{}}, "problem": null}}'.encode()
    storage.shared_run_storage().put(str(run.result_key), envelope, content_type=storage.ENVELOPE_CONTENT_TYPE)
    ending.end_due(limit=10)
    assert (shop.only_task().status, shop.only_task().outcome) == ("COMPLETED", "SUCCEEDED")
    (result,) = shop.results()
    assert result.summary == summary
    assert summary in shop.bodies()[0]


@pytest.mark.contract("LIF-09")
def test_lif_09_a_later_task_of_the_thread_reads_the_earlier_results(shop: AutomationShop) -> None:
    rule = shop.rule(inputs={"cost_usd": "0.0100", "sleep_ms": {"$": "earlier.0.data.slept_ms", "else": 3}})
    shop.event("first", thread="issue-7")
    shop.turn()
    without = {"$": "earlier.0.data.slept_ms", "else": 5}
    AutomationRule.objects.filter(pk=rule.pk).update(
        inputs={"cost_usd": "0.0100", "sleep_ms": without}, version=F("version") + 1
    )
    for event_id, thread in (("second", "issue-7"), ("other", "issue-8")):
        shop.event(event_id, thread=thread)
        shop.turn()
    assert [result.data["slept_ms"] for result in shop.results() if result.data] == [3, 3, 5]


@pytest.mark.contract("LIF-09")
def test_lif_09_a_session_log_holds_the_logs_and_what_a_command_wrote(shop: AutomationShop) -> None:
    shop.rule()
    shop.event()
    shop.buy()
    shop.work()
    run = Run.objects.get()
    said = {"data": {"stdout": "out", "stderr": "err", "session_id": "s-1"}, "logs": {"engine": "1"}, "problem": None}
    storage.shared_run_storage().put(
        str(run.result_key), json.dumps(said).encode(), content_type=storage.ENVELOPE_CONTENT_TYPE
    )
    logs = {"logs": {"engine": "1"}, "problem": None}
    run.pack_type = "command"
    assert ending.answer_of_run(run).session_log == logs | {"stdout": "out", "stderr": "err"}
    ending.end_due(limit=10)
    (result,) = shop.results()
    assert (result.session_log, result.session_id, result.summary) == (logs, "s-1", "out")


@pytest.mark.contract("LIF-09")
def test_lif_09_a_task_that_failed_keeps_its_last_runs_session_log(shop: AutomationShop) -> None:
    shop.rule(retries=0)
    shop.event(payload={"fail": True})
    shop.turn()
    shop.turn()
    (result,) = shop.results()
    assert (result.outcome, result.run_id) == ("FAILED", Run.objects.get().pk)
    assert result.session_log is not None
    assert result.session_log["problem"]["reason_code"] == shop.only_task().reason
