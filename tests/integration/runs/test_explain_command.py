"""`manage.py explain_run`: what it prints for people, for scripts, and how it ends (DPP-47, DPP-76)."""

import io
import json
import uuid
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from runs import transitions
from runs.models import RunDispute
from tests.gear.builders import runs as gear

pytestmark = [pytest.mark.django_db, pytest.mark.contract("DPP-47", "DPP-76")]


def explain(*arguments: str) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command("explain_run", *arguments, stdout=out, stderr=err, no_color=True)
    return out.getvalue(), err.getvalue()


def explain_json(run_id: uuid.UUID) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(explain(str(run_id), "--json")[0])
    return document


def test_dpp_47_explain_run_tells_state_next_and_history() -> None:
    run = gear.working()
    out, err = explain(str(run.run_id))
    lines = out.splitlines()
    assert lines[0] == f"Run {run.run_id} of {run.tenant_id}, pack decision, trace a-trace"
    assert lines[1] == "PROCESSING RESERVED, version 2"
    assert "A worker is at it; $0.250000 held." in lines
    assert any(line.startswith("  the reaper (") and "in 1 min" in line for line in lines)
    assert [line.split("  ", 2)[2] for line in lines[-3:]] == [
        "v0  QUEUED NONE  by api",
        "v1  QUEUED RESERVED  by api",
        "v2  PROCESSING RESERVED  by worker",
    ]
    assert err == ""


def test_dpp_47_explain_run_answers_scripts() -> None:
    run = gear.committed()
    gear.won(transitions.dispute(run_id=run.run_id, version=4, actor="operator:kim"))
    RunDispute.objects.create(run=run, version=5, step="OPENED", actor="operator:kim", reason="wrong answer")
    document = explain_json(run.run_id)
    assert (document["status"], document["money_state"], document["finalize_stage"]) == (
        "COMPLETED",
        "DISPUTED",
        "COMMITTED",
    )
    assert document["waits_for"] == "an operator's decision."
    assert [step["actor"] for step in document["next"]] == ["an operator", "the retention"]
    assert [step["version"] for step in document["timeline"]] == [0, 1, 2, 3, 4, 5]
    assert [(step["step"], step["reason"]) for step in document["disputes"]] == [("OPENED", "wrong answer")]
    assert document["overdue"] is None


@pytest.mark.parametrize("state", ["accepted", "reserved", "working", "claimed", "committed", "disputed", "expired"])
def test_dpp_47_explain_run_knows_every_state_and_changes_none(state: str) -> None:
    run = getattr(gear, state)()
    before = gear.everything(run.run_id)
    document = explain_json(run.run_id)
    assert document["run_id"] == str(run.run_id)
    assert document["stands"]
    assert document["next"]
    assert gear.everything(run.run_id) == before


def test_dpp_47_explain_run_names_who_is_late() -> None:
    run = gear.aged(gear.working(), lease_expires_at=600)
    out, err = explain(str(run.run_id))
    assert "A worker had it and no longer renews its lease." in out
    assert err == "overdue: the reaper should have acted 10 min ago: does its job run?\n"


def test_dpp_47_explain_run_never_shows_what_the_caller_sent() -> None:
    run = gear.working(inputs={"question": "a-secret-canary"})
    assert "a-secret-canary" not in explain(str(run.run_id))[0] + explain(str(run.run_id), "--json")[0]


@pytest.mark.parametrize(("text", "reason"), [("not-an-id", "VALIDATION_FAILED"), (str(uuid.UUID(int=1)), "NOT_FOUND")])
def test_dpp_76_explain_run_refuses_what_is_no_run(text: str, reason: str) -> None:
    out = io.StringIO()
    with pytest.raises(CommandError, match="run_id: ") as refused:
        call_command("explain_run", text, "--json", stdout=out)
    assert refused.value.returncode == 1
    assert json.loads(out.getvalue())["error"]["reason"] == reason
