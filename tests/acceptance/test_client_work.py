"""The Python client and its command against a real API and a real worker (DPP-83)."""

import asyncio
import fcntl
import json
import os
import pty
import shutil
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from decimal import Decimal
from importlib import import_module
from pathlib import Path

import httpx2
import pytest

import dpp
from dpp.command import main as command
from dpp.documents import Run
from dpp.streams import Followed
from tests.gear.builders.shop import PRICE, Shop
from tests.gear.builders.waiting import begun
from tests.gear.servers.live_api import Api, an_api
from tests.gear.servers.live_processes import a_worker
from tests.gear.servers.worker import ROOT
from tests.gear.waiting import wait_until
from tests.proving import proofs

pytestmark = [pytest.mark.contract("DPP-83"), pytest.mark.django_db(transaction=True)]

BUY = ("submit", "probe", '{"sleep_ms": 1}', "--max-cost", PRICE)
MESSAGES = [
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "dpp_budget_get", "arguments": {}}},
]  # fmt: skip


@pytest.fixture(scope="module")
def api(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with an_api(tmp_path_factory.mktemp("command"), threads=2, limits={}) as found:
        yield found


@pytest.fixture(scope="module")
def working(aws: str, django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with a_worker(tmp_path_factory.mktemp("command-worker")):
        yield


@pytest.fixture
def environ(api: Api, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    found = {"DPP_API_URL": f"http://127.0.0.1:{api.port}", "DPP_API_KEY": shop.issued.plaintext}
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "clients" / "python"), **found}


def test_dpp_83_the_command_does_nothing_without_being_told_how(
    environ: dict[str, str], shop: Shop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for wrong in (("submit", "probe", "[]", "--max-cost", "1"), ("submit", "probe", "{}"), ("wait",), ("sell",)):
        with pytest.raises(SystemExit) as ended:
            command.main([*wrong])
        assert ended.value.code == command.WRONG_USE
    assert command.main(["submit", "probe", "{}", "--max-cost", "0.00001"]) == command.WRONG_USE
    assert command.main(["submit", "probe", "{}", "--max-cost", "1", "--metadata", "x"]) == command.WRONG_USE
    capsys.readouterr()
    for file in ("not_there.png", "not_there"):
        assert command.main(["upload", file]) == command.WRONG_USE
        assert capsys.readouterr().err == f"dpp: {file}: No such file or directory\n"
    assert command.main(["upload", str(ROOT / "Makefile")]) == command.WRONG_USE
    assert capsys.readouterr().err.startswith("dpp: --content-type: give one, or a file that ends in one of .png")
    with pytest.raises(SystemExit):
        command.main(["submit", "probe", '{"sleep_ms": 1', "--max-cost", "1"])
    assert "argument INPUTS: a JSON object; line 1 column 15: Expecting ',' delimiter" in capsys.readouterr().err
    assert command.main(["submit", "probe", '{"sleep": 1}', "--max-cost", "1"]) == command.REFUSED
    said = capsys.readouterr().err
    assert said.startswith("dpp: 422 VALIDATION_FAILED: inputs.sleep: ")
    assert "trace_id" in said
    assert command.main(["get", "01980f6e-7a51-7c2e-9d0b-0f5a3c1b2d4e"]) == command.REFUSED
    monkeypatch.setenv("DPP_API_KEY", "")
    assert command.main(["budget"]) == command.WRONG_USE
    assert capsys.readouterr().err.endswith("dpp: DPP_API_KEY is not set\n")
    shop.nothing_happened()


def test_dpp_83_a_run_from_a_terminal_to_its_result(
    environ: dict[str, str], working: None, shop: Shop, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ordered = ["--priority", "9", "--concurrency-key", "nightly"]
    waited = ["--wait", "--timeout", "60", "--json", "--metadata", "project=apollo"]
    assert command.main([*BUY, *ordered, *waited]) == command.DONE
    out, err = capsys.readouterr()
    run = json.loads(out)
    assert (run["status"], run["metadata"]) == ("COMPLETED", {"project": "apollo"})
    assert err.splitlines()[0] == run["run_id"]
    assert "\x1b" not in err, "no terminal, no orders to one"
    assert err.splitlines()[1:-1] == ["QUEUED", "PROCESSING", "PROCESSING, finishing"]
    assert err.splitlines()[-1].startswith("COMPLETED, used 0.")
    assert command.main(["upload", str(ROOT / "LICENSE"), "--content-type", "text/plain"]) == command.DONE
    assert capsys.readouterr().out.startswith("uploads/")
    assert command.main(["download", run["run_id"], "-o", str(tmp_path / "a.json")]) == command.DONE
    capsys.readouterr()
    for path, why in ((tmp_path / "none" / "a", "No such file or directory"), (tmp_path, "Is a directory")):
        assert command.main(["download", run["run_id"], "-o", str(path)]) == command.WRONG_USE
        assert capsys.readouterr().err == f"dpp: {path}: {why}\n"
    assert json.loads((tmp_path / "a.json").read_bytes())["run_id"] == run["run_id"]
    assert command.main(["cancel", run["run_id"]]) == command.REFUSED
    capsys.readouterr()
    for words, told in (
        (["get", run["run_id"]], "COMPLETED"),
        (["wait", run["run_id"]], "COMPLETED"),
        (["list", "--metadata", "project=apollo"], run["run_id"]),
        (["budget"], "balance"),
        (["keys"], shop.issued.key.prefix),
        (["packs"], "decision:"),
    ):
        assert command.main(words) == command.DONE
        shown = capsys.readouterr().out
        assert told in shown
        assert command.main([*words, "--json"]) == command.DONE
        assert json.loads(capsys.readouterr().out)
        assert shop.issued.plaintext not in shown


def test_dpp_83_a_run_that_fails_and_one_that_goes_on_have_exit_codes(
    environ: dict[str, str], working: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["submit", "probe", '{"fail": true}', "--max-cost", PRICE, "--wait"]) == command.RUN_FAILED
    assert "PACK_FAILED" in capsys.readouterr().out
    assert command.main(["submit", "probe", '{"sleep_ms": 2000}', "--max-cost", PRICE]) == command.DONE
    run_id = capsys.readouterr().out.strip()
    assert command.main(["wait", run_id, "--timeout", "0.3"]) == command.NOT_ENDED
    assert f"dpp wait {run_id}" in capsys.readouterr().err
    assert command.main(["cancel", run_id]) == command.DONE


def test_dpp_83_ctrl_c_leaves_the_run_going_and_says_how_to_wait_again(
    api: Api, environ: dict[str, str], shop: Shop
) -> None:
    before = begun(api)
    words = [sys.executable, "-m", "dpp", "submit", "probe", '{"sleep_ms": 60000}', "--max-cost", PRICE, "--wait"]
    with subprocess.Popen(words, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: begun(api) > before, seconds=30, what="it waits")
        process.send_signal(signal.SIGINT)
        _out, err = process.communicate(timeout=30)
    (run,) = shop.runs()
    assert process.returncode == command.INTERRUPTED
    assert run.status in {"QUEUED", "PROCESSING"}
    assert f"Wait for it again: dpp wait {run.run_id}" in err
    assert "Traceback" not in err
    assert command.main(["cancel", str(run.run_id)]) == command.DONE


def test_dpp_83_a_terminal_shows_one_line_that_changes(environ: dict[str, str], working: None, shop: Shop) -> None:
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    words = ["submit", "probe", '{"sleep_ms": 1500, "tell": 2}', "--max-cost", PRICE, "--wait"]
    shown = b""
    with subprocess.Popen([sys.executable, "-m", "dpp", *words], env=environ, stdout=its, stderr=its) as process:
        os.close(its)
        while some := _read(ours):
            shown += some
    os.close(ours)
    assert process.returncode == command.DONE
    assert b"\r\x1b[K[##########..........] 50 % step 1" in shown
    assert shop.issued.plaintext.encode() not in shown


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # its last writer has gone
        return b""


def test_dpp_83_dpp_mcp_is_the_bridge(environ: dict[str, str], shop: Shop) -> None:
    lines = "".join(json.dumps(one) + "\n" for one in MESSAGES)
    done = subprocess.run(
        [sys.executable, "-m", "dpp", "mcp"], env=environ, input=lines, capture_output=True, text=True, check=True
    )
    answers = {one["id"]: one["result"] for one in map(json.loads, done.stdout.splitlines())}
    assert answers[2]["structuredContent"]["tenant_id"] == shop.tenant.tenant_id


@pytest.mark.slow
def test_dpp_83_the_wheel_installed_afresh_brings_the_command(
    environ: dict[str, str], shop: Shop, tmp_path: Path
) -> None:
    uv = str(Path(sys.executable).with_name("uv"))
    source, target = tmp_path / "source", tmp_path / "target"
    shutil.copytree(ROOT / "clients" / "python", source, ignore=shutil.ignore_patterns("__pycache__"))
    quiet = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "UV_CACHE_DIR": str(tmp_path / "cache")}
    built = [uv, "build", "--wheel", "--offline", "--out-dir", str(tmp_path / "dist"), str(source)]
    subprocess.run(built, check=True, env=quiet, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("dpp-*.whl")
    install = [uv, "pip", "install", "--offline", "--no-deps", "--python", sys.executable, "--target", str(target)]
    subprocess.run([*install, str(wheel)], check=True, env=quiet, capture_output=True)
    assert (target / "dpp" / "py.typed").exists()
    libraries = str(Path(httpx2.__file__).parents[1])  # its one dependency, from where it is already
    found = environ | {"PYTHONPATH": os.pathsep.join([str(target), libraries])}
    done = subprocess.run(
        [str(target / "bin" / "dpp"), "budget", "--json"],
        env=found, cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["tenant_id"] == shop.tenant.tenant_id
    proofs.report(cases=1)


def test_dpp_83_a_run_is_bought_waited_for_read_and_deleted(api: Api, working: None, shop: Shop) -> None:
    with dpp.Client(f"http://127.0.0.1:{api.port}", shop.issued.plaintext) as client:
        run = client.submit_and_wait(
            "probe",
            {"sleep_ms": 1, "cost_usd": "0.0100"},
            max_cost_usd=Decimal("0.25"),
            inline=True,
            metadata={"project": "apollo"},
            timeout=60,
        )
        assert (run.completed, run.cost.used_usd_micros, run.cost.used_usd) == (True, 10_000, Decimal("0.010000"))
        assert run.check() is run
        assert run.result is not None
        assert run.result.data["slept_ms"] == 1
        assert json.loads(client.download(run.run_id))["run_id"] == run.run_id
        assert client.get(run.run_id).cost == run.cost
        assert client.wait(run.run_id).run_id == run.run_id
        budget = client.budget()
        assert (budget.charged_usd_micros, budget.held_usd_micros) == (10_000, 0)
        assert budget.balance_usd_micros == shop.balance_micros()
        assert [entry.amount_usd for entry in client.entries(kind="CHARGE")] == [Decimal("-0.010000")]
        assert client.usage(group_by="pack").totals.net_usd_micros == 10_000
        (key,) = client.keys()
        assert key.spent.total_usd_micros == 10_000
        assert "decision" in {pack.pack_type for pack in client.packs()}
        assert [one.run_id for one in client.list(metadata={"project": "apollo"})] == [run.run_id]
        assert list(client.list(metadata={"project": "gemini"})) == []
        client.delete_data(run.run_id)
        with pytest.raises(dpp.GoneError) as gone:
            client.get(run.run_id)
        assert gone.value.reason_code == "GONE"


def test_dpp_83_the_async_client_does_the_same(api: Api, working: None, shop: Shop, tmp_path: Path) -> None:
    async def script() -> tuple[Run, list[Followed], list[str]]:
        async with dpp.AsyncClient(f"http://127.0.0.1:{api.port}", shop.issued.plaintext) as client:
            receipt = await client.submit("probe", {"sleep_ms": 900, "tell": 2}, max_cost_usd=PRICE)
            told = [event async for event in client.stream(receipt.run_id)]
            run = await client.wait(receipt.run_id, timeout=30)
            await client.download(run.run_id, to=tmp_path / "result.json")
            return run, told, [one.run_id async for one in client.list()]

    run, told, listed = asyncio.run(script())
    steps = [event for event in told if isinstance(event, dpp.StepEvent)]
    progress = [event for event in told if isinstance(event, dpp.Progress)]
    assert [step.status for step in steps] == ["QUEUED", "PROCESSING", "PROCESSING", "COMPLETED"]
    assert steps[-1].used_usd_micros == run.cost.used_usd_micros
    assert progress
    assert progress[0].percent in {50.0, 100.0}
    assert listed == [run.run_id]
    assert json.loads((tmp_path / "result.json").read_bytes())["run_id"] == run.run_id
    assert [one.name for one in tmp_path.iterdir()] == ["result.json"]


@pytest.mark.contract("DPP-71")
def test_dpp_71_a_client_generated_from_our_document_buys_a_run_and_reads_its_result(
    api: Api, working: None, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told nothing but the document; what it could not make of that it would say."""
    url = f"http://127.0.0.1:{api.port}"
    document, quietly = tmp_path / "openapi.json", tmp_path / "quietly.json"
    document.write_bytes(httpx2.get(f"{url}/v1/openapi.json").content)
    quietly.write_text('{"post_hooks": []}', encoding="utf-8")
    generator = Path(sys.executable).with_name("openapi-python-client")
    options: list[str | Path] = [
        "--path",
        document,
        "--meta",
        "none",
        "--output-path",
        tmp_path / "generated",
        "--config",
        quietly,
    ]
    said = subprocess.run([generator, "generate", *options], capture_output=True, text=True, check=True)
    assert "arning" not in said.stdout + said.stderr, said
    made = {path.stem.replace("_", "") for path in (tmp_path / "generated" / "api").glob("*/[a-z]*.py")}
    operations = [one for path in json.loads(document.read_bytes())["paths"].values() for one in path.values()]
    assert {one["operationId"].lower() for one in operations} == made

    monkeypatch.syspath_prepend(tmp_path)
    generated, models = import_module("generated"), import_module("generated.models")
    submit_run = import_module("generated.api.runs.submit_run")
    bought = models.DecisionRun(
        pack_type="decision",
        inputs=models.DecisionInputs(question="Who pays?", context="The tenant pays. The sun shines."),
        reservation=models.Reservation(max_cost_usd=PRICE),
        options=models.Options(inline=1),
    )
    with generated.AuthenticatedClient(url, shop.issued.plaintext) as client:
        answer = submit_run.sync(client=client, body=bought, idempotency_key="generated-1", wait=55)
    assert isinstance(answer, models.RunWithReceipt), answer
    assert (answer.run.status, answer.run.result.data.answer_text) == ("COMPLETED", "The tenant pays.")
    assert isinstance(answer.run.result.data, models.DecisionResult)
