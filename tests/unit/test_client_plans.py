"""What the Python client repeats, and when; its files, and what it stands on (DPP-83)."""

import ast
import hashlib
import inspect
import json
import subprocess
import sys
import time
import tomllib
from typing import Any

import httpx2
import pytest

import dpp
from dpp.command import arguments, completion
from dpp.command.main import COMMANDS
from dpp.documents import Budget, document_of
from dpp.exchange import Answer, Ask, Lost, Pause, Plan, plan_exchange
from dpp.operations import Operations, Submit
from dpp.streams import Follower
from dpp.transport import Platform
from tests.gear.source import REPOSITORY

pytestmark = pytest.mark.contract("DPP-83")

FOLDER = REPOSITORY / "clients" / "python"
ASK = Ask("GET", "/v1/budget")


def answer(status: int, *, reason: str = "X", **headers: str) -> Answer:
    return Answer(
        status,
        {name.replace("_", "-"): value for name, value in headers.items()},
        json.dumps({"reason_code": reason, "detail": "so"}).encode(),
    )


def carried(plan: Plan[Answer], *replies: Answer | Lost) -> tuple[Any, list[float]]:
    """What comes of it, and its pauses."""
    left, pauses = list(replies), []
    try:
        step = next(plan)
        while True:
            if isinstance(step, Pause):
                pauses.append(step.seconds)
                step = plan.send(None)
            else:
                assert step == ASK
                step = plan.send(left.pop(0))
    except StopIteration as ended:
        assert left == []
        return ended.value, pauses
    except dpp.DppError as error:
        assert left == []
        return error, pauses


@pytest.mark.parametrize("again", [Lost("ReadError"), *(answer(status) for status in (429, 502, 503, 504))])
def test_dpp_83_what_may_be_answered_otherwise_is_asked_again(again: Answer | Lost) -> None:
    good = answer(200)
    found, pauses = carried(plan_exchange(ASK, retries=5), again, again, good)
    assert found is good
    assert 0.125 <= pauses[0] <= 0.25 <= pauses[1] <= 0.5, "doubled, and spread"
    error, pauses = carried(plan_exchange(ASK, retries=2, key="a-key-of-mine"), again, again, again)
    assert isinstance(error, dpp.ConnectionLostError | dpp.ApiError)
    assert (error.idempotency_key, len(pauses)) == ("a-key-of-mine", 2)


@pytest.mark.parametrize("status", [301, 400, 401, 402, 403, 404, 409, 410, 412, 422, 500])
def test_dpp_83_nothing_else_is_asked_again(status: int) -> None:
    error, pauses = carried(
        plan_exchange(ASK, retries=5), answer(status, reason="IDEMPOTENCY_CONFLICT", retry_after="1")
    )
    assert isinstance(error, dpp.ApiError)
    assert (error.status, error.reason_code, pauses) == (status, "IDEMPOTENCY_CONFLICT", [])


def test_dpp_83_a_key_that_is_being_handled_is_asked_again() -> None:
    """As it is while the request that broke off goes on."""
    good = answer(202)
    in_progress = answer(409, reason="IDEMPOTENCY_IN_PROGRESS", retry_after="1")
    found, pauses = carried(plan_exchange(ASK, retries=5), in_progress, good)
    assert found is good
    assert 1 <= pauses[0] < 1.5


@pytest.mark.parametrize(("told", "least", "most"), [("30", 30, 30.3), ("0", 0, 0.3), ("soon", 0.1, 0.3)])
def test_dpp_83_retry_after_is_kept_to(told: str, least: float, most: float) -> None:
    _, pauses = carried(plan_exchange(ASK, retries=1), answer(429, retry_after=told), answer(200))
    assert least <= pauses[0] <= most


def test_dpp_83_nobody_waits_an_hour_unasked() -> None:
    error, pauses = carried(plan_exchange(ASK, retries=5), answer(429, retry_after="3600"))
    assert (error.retry_after, pauses) == (3600.0, [])


def test_dpp_83_what_has_another_hash_is_no_result() -> None:
    meta = dict.fromkeys(("created_at", "updated_at", "retention_until"), "2026-03-01T12:00:00Z") | {"trace_id": None}
    micros = ("reserved", "used", "minimum_fee", "budget_remaining")
    run = {
        "run_id": "r-1", "pack_type": "probe", "status": "COMPLETED", "money_state": "SETTLED", "metadata": {},
        "cost": {f"{name}_usd_micros": 1 for name in micros}, "meta": meta, "artifacts": [],
        "result": {"presigned_url": "http://bucket/x", "sha256": hashlib.sha256(b"whole").hexdigest()},
    }  # fmt: skip
    for body, is_good in ((b"whole", True), (b"whol", False)):
        plan = Operations(retries=0).download("r-1", None)
        assert next(plan) == Ask("GET", "/v1/runs/r-1")
        assert plan.send(Answer(200, {}, json.dumps(run).encode())) == Ask("GET", "http://bucket/x")
        with pytest.raises(StopIteration if is_good else dpp.CorruptDownloadError):
            plan.send(Answer(200, {}, body))


def test_dpp_83_the_key_goes_to_the_api_alone() -> None:
    platform = Platform("https://dpp.example/base", "dpp_key")
    with httpx2.Client() as http:
        ours, buckets = (platform.request(http, Ask("GET", path)) for path in ("/v1/runs", "https://bucket.example/x"))
    assert (str(ours.url), ours.headers["Authorization"]) == ("https://dpp.example/base/v1/runs", "Bearer dpp_key")
    assert "dpp_key" not in str(buckets.headers.raw)
    for wrong in ("dpp.example", "ftp://dpp.example", "https://user:word@dpp.example", "http://a:port", "http://[", ""):
        with pytest.raises(dpp.ConfigurationError, match="DPP_API_URL"):
            Platform(wrong, "dpp_key")


def test_dpp_83_money_is_never_a_float() -> None:
    budget = dict.fromkeys(("balance_usd_micros", "held_usd_micros", "charged_usd_micros", "credited_usd_micros"), 1)
    document: dict[str, Any] = {**budget, "tenant_id": "t", "zone": "UTC", "caps": [], "of_a_later_release": 1}
    assert document_of(Budget, document).balance_usd == dpp.usd(1)
    for wrong in (1.0, True, "1", None):
        with pytest.raises(dpp.UnexpectedAnswerError):
            document_of(Budget, document | {"balance_usd_micros": wrong})


def test_dpp_83_a_stream_that_never_ends_an_event_is_given_up() -> None:
    follower = Follower("run", 5)
    follower.ask()
    assert list(follower.read(b"data: " + b"x" * 1_000_000)) == []
    with pytest.raises(dpp.UnexpectedAnswerError):
        list(follower.read(b"x" * 100_000))


def test_dpp_83_pings_make_no_stream_outlast_its_time() -> None:
    follower = Follower("run", 0, ends=time.monotonic() + 20)
    assert 19 < (follower.ask().seconds or 0) <= 20
    assert list(follower.read(b": ping\n\n")) == []
    assert not follower.is_late()
    follower.ends = time.monotonic() + 5  # as fifteen seconds later
    assert follower.is_late()
    follower.closed(None)
    assert follower.pause == 0.0
    assert 4 < (follower.ask().seconds or 0) <= 5
    follower.ends = time.monotonic()
    last = b'id: 4\ndata: {"status": "%s", "money_state": "SETTLED", "at": "2026-03-01T12:00:00Z"}\n\n'
    with pytest.raises(dpp.WaitTimeoutError):
        list(follower.read(last % b"PROCESSING"))
    (end,) = follower.read((last % b"COMPLETED").replace(b"4", b"5", 1))
    assert isinstance(end, dpp.StepEvent)


def test_dpp_83_the_bridge_is_one_file() -> None:
    """`dpp mcp` has no platform beside it, and the platform no client: each has the file, and they are held equal."""
    ours, theirs = REPOSITORY / "runs" / "mcp" / "bridge.py", FOLDER / "dpp" / "mcp_bridge.py"
    assert ours.read_bytes() == theirs.read_bytes(), "copy runs/mcp/bridge.py to clients/python/dpp/mcp_bridge.py"


def test_dpp_83_the_client_stands_on_one_library_and_nothing_of_the_platform() -> None:
    imported: set[str] = set()
    for path in (FOLDER / "dpp").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {one.name.split(".")[0] for one in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").split(".")[0])
    assert imported - sys.stdlib_module_names == {"dpp", "httpx2"}
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text("utf-8"))["project"]
    assert [one.split(">")[0] for one in project["dependencies"]] == ["httpx2"]
    assert project["version"] == dpp.__version__
    assert (FOLDER / "dpp" / "py.typed").exists()


def test_dpp_83_both_clients_can_be_asked_the_same() -> None:
    def asked_of(kind: type[Any]) -> dict[str, list[inspect.Parameter]]:
        return {
            name: list(inspect.signature(one).parameters.values())
            for name, one in vars(kind).items()
            if inspect.isfunction(one) and not name.startswith("_")
        }

    sync, asynchronous = asked_of(dpp.Client), asked_of(dpp.AsyncClient)
    sync["aclose"] = sync.pop("close")
    assert sync == asynchronous
    assert len(sync) > 12


def test_dpp_83_every_command_has_its_help_and_is_completed(capsys: pytest.CaptureFixture[str]) -> None:
    for name in COMMANDS:
        with pytest.raises(SystemExit) as ended:
            arguments.command_parser().parse_args([name, "--help"])
        assert ended.value.code == 0
        assert f"usage: dpp {name}" in capsys.readouterr().out
    script = completion.completion_script("bash", arguments.command_parser())
    words = ("COMP_WORDS=(dpp ca); COMP_CWORD=1", "COMP_WORDS=(dpp wait --t); COMP_CWORD=2")
    asked = "\n".join([script, *(f"{one}; _dpp; echo $COMPREPLY" for one in words)])
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["cancel", "--timeout"]
    assert "complete -c dpp -n __fish_use_subcommand -a budget" in completion.completion_script(
        "fish", arguments.command_parser()
    )
    assert "bashcompinit" in completion.completion_script("zsh", arguments.command_parser())


@pytest.mark.contract("DPP-98")
def test_dpp_98_a_submit_orders_its_callers_own_runs_and_says_nothing_where_it_does_not() -> None:
    ordered = Submit.of("probe", {}, max_cost_usd="1", inline=True, priority=0, concurrency_key="customer-4711")
    assert json.loads(ordered.body)["options"] == {"inline": 1, "priority": 0, "concurrency_key": "customer-4711"}
    assert "options" not in json.loads(Submit.of("probe", {}, max_cost_usd="1").body)
    read = arguments.command_parser().parse_args(
        ["submit", "probe", "{}", "--max-cost", "1", "--priority", "0", "--concurrency-key", "customer-4711"]
    )
    assert (read.priority, read.concurrency_key) == (0, "customer-4711")
