"""Queue messages are sealed, and nothing is taken from one but what its seal holds (HRD-19)."""

import base64
import json
import uuid
from typing import Any

import pytest

from dpp_project import seals
from dpp_project.celery_sqs import celery_message, message_seal
from dpp_project.celery_sqs.celery_message import NotOurs, Obeyed
from dpp_project.settings import ENV
from reaper import message_parser
from runs.submit.wake_worker import Wakeup

pytestmark = pytest.mark.contract("HRD-19")
OLD, NEW = "an-old-secret-of-more-than-32-characters", "a-new-secret-of-more-than-32-characters!"


def keyed(monkeypatch: pytest.MonkeyPatch, secret: str, *fallbacks: str, unsealed: str = "refuse") -> None:
    changed = ENV.model_copy(
        update={"DPP_SECRET_KEY": secret, "DPP_SECRET_KEY_FALLBACKS": [*fallbacks], "DPP_QUEUE_UNSEALED": unsealed}
    )
    monkeypatch.setattr(seals, "ENV", changed)
    monkeypatch.setattr(celery_message, "ENV", changed)


def sent(trace_id: str | None = "t_1") -> str:
    return celery_message.pack_celery_message(task="gear.work", kwargs={"name": "one"}, queue="runs", trace_id=trace_id)


def altered(text: str, *path: str, to: Any) -> str:
    document = json.loads(base64.b64decode(text))
    at = document
    for name in path[:-1]:
        at = at[name]
    at[path[-1]] = to
    return base64.b64encode(json.dumps(document).encode()).decode()


def without_seal(text: str) -> str:
    document = json.loads(base64.b64decode(text))
    del document["headers"]["dpp_seal"]
    return base64.b64encode(json.dumps(document).encode()).decode()


def refused(text: str) -> str:
    with pytest.raises(NotOurs) as found:
        celery_message.read_celery_message(text)
    return str(found.value)


def test_a_message_of_ours_is_obeyed_as_it_was_sent() -> None:
    found = celery_message.read_celery_message(sent())
    assert found == Obeyed("gear.work", found.task_id, "t_1", {"name": "one"})


OTHER_BODY = base64.b64encode(json.dumps([[], {"name": "two"}, {}]).encode()).decode()


@pytest.mark.parametrize(
    ("path", "to"),
    [
        (("headers", "task"), "gear.fail"),
        (("headers", "id"), str(uuid.UUID(int=1))),
        (("headers", "trace_id"), "t_2"),
        (("headers", "dpp_seal"), "0" * 64),
        (("headers", "dpp_seal"), ""),
        (("headers", "dpp_seal"), 7),
        (("headers", "dpp_seal"), "\ud800"),
        (("body",), OTHER_BODY),
    ],
)
def test_what_the_seal_holds_cannot_be_changed(path: tuple[str, ...], to: Any) -> None:
    assert refused(altered(sent(), *path, to=to)) == "the seal does not hold"


def test_what_the_seal_does_not_hold_is_not_seen() -> None:
    text = sent()
    loud = altered(altered(text, "headers", "timelimit", to=[1, 1]), "properties", "reply_to", to="x")
    assert [
        celery_message.write_celery_message(celery_message.read_celery_message(it), queue="runs") for it in (loud, text)
    ] == [text, text]


def test_a_message_without_a_seal_is_refused_unless_its_senders_are_being_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = without_seal(sent())
    assert refused(text) == "not sealed"
    keyed(monkeypatch, ENV.DPP_SECRET_KEY, unsealed="accept")
    assert celery_message.read_celery_message(text).kwargs == {"name": "one"}
    assert refused(altered(sent(), "headers", "dpp_seal", to="0" * 64)) == "the seal does not hold"


def test_a_key_is_changed_in_three_steps_and_no_message_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every process knows both before one seals with the new, and until none of the old is under way."""
    keyed(monkeypatch, OLD)
    of_old = sent()
    keyed(monkeypatch, NEW, OLD)
    of_new = sent()
    assert (
        celery_message.read_celery_message(of_old).task
        == celery_message.read_celery_message(of_new).task
        == "gear.work"
    )
    keyed(monkeypatch, OLD, NEW)
    assert celery_message.read_celery_message(of_new).task == "gear.work"
    keyed(monkeypatch, NEW)
    assert refused(of_old) == "the seal does not hold"


@pytest.mark.parametrize(
    ("task", "task_id", "arguments"),
    [
        ("celery.chord_unlock", str(uuid.UUID(int=1)), []),
        ("gear.work", "x" * 100_000, []),
        ("gear.work", str(uuid.UUID(int=1)), [1]),
        (7, str(uuid.UUID(int=1)), []),
    ],
)
def test_a_form_that_we_do_not_send_is_refused_under_our_own_seal(
    task: Any, task_id: str, arguments: list[int]
) -> None:
    body = base64.b64encode(json.dumps([arguments, {}, {}]).encode()).decode()
    seal = message_seal.seal_message(task=task, task_id=task_id, trace_id=None, body=body)
    document = {"headers": {"task": task, "id": task_id, "trace_id": None, "dpp_seal": seal}, "body": body}
    assert refused(base64.b64encode(json.dumps(document).encode()).decode()) in {
        "not in our form",
        "one of Celery's own tasks",
    }


def test_a_forged_letter_decides_over_no_run() -> None:
    """Two letters of a queued run refund it: who can write to the queue could cancel runs."""
    run_id = uuid.UUID(int=7)
    text = Wakeup(run_id=run_id, tenant_id="t_acme", pack_type="ocr", trace_id=None).message().body
    letter = message_parser.parse_message(text)
    assert letter is not None
    assert letter.run_id == run_id
    assert message_parser.parse_message(without_seal(text)) is None
