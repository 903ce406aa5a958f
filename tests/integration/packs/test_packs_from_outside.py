"""An installed package's pack is sold as any other, in the same box; a broken one is left out and named (DPP-60).

An update reprices no run that is held (DPP-93).
"""

import re
import shutil
import subprocess
import sys
import sysconfig
import uuid
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from dpp_project import clock
from runs import checks, metrics
from runs.box.box import Box
from runs.models import Run
from runs.operators.explain_run import explain
from runs.packs import registry
from runs.submit import request_body
from runs.worker import execution
from runs.worker.execution import End
from tests.gear.builders import recovery, work
from tests.gear.builders import runs as gear
from tests.gear.builders.shop import Shop, a_body, messages

pytestmark = [pytest.mark.contract("DPP-60"), pytest.mark.usefixtures("children_die")]

PAGE = Path(__file__).resolve().parents[3] / "docs" / "packs.md"
SOURCE = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[-1]
"""The page's own."""
_DIFF = re.findall(r"```diff\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[-1].splitlines(keepends=True)
DEARER = SOURCE.replace(*("".join(line[1:] for line in _DIFF if line[0] == sign) for sign in "-+"))
"""As the page updates it: five times the price."""
FORGETS = re.sub(r" *earlier_prices=.*\n", "", DEARER)
"""The same, without the list that runs may be held under."""


def a_wheel(folder: Path, name: str, entries: dict[str, str], modules: dict[str, str]) -> Path:
    path = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    points = "[dpp.packs]\n" + "".join(f"{entry} = {value}\n" for entry, value in entries.items())
    files = {f"{module}.py": text for module, text in modules.items()} | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": points,
    }
    with zipfile.ZipFile(path, "w") as wheel:
        for file, text in files.items():
            wheel.writestr(file, text)
        wheel.writestr(f"{info}/RECORD", "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"]))
    return path


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The packages' folder of a fresh environment that has ours too; this process and new boxes are of it."""
    venv.create(tmp_path / "venv", with_pip=False)
    found = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    (found / "ours.pth").write_text(sysconfig.get_path("purelib"))
    monkeypatch.syspath_prepend(found)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "bin" / "python"))
    _forget()
    yield found
    monkeypatch.undo()
    _forget()
    metrics.PACK_SECONDS.remove_by_labels({"pack": "acme_words"})  # this process sells it no more


def _forget() -> None:
    for cached in (registry.found_packs, registry.packs_for_sale, request_body.model_for):
        cached.cache_clear()
    for name in [name for name in sys.modules if name.startswith("acme_")]:
        del sys.modules[name]


def install(site: Path, wheel: Path, python: str) -> None:
    subprocess.run(
        [python, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", site, wheel], check=True
    )
    _forget()


PYTHON = sys.executable


def test_dpp_60_an_installed_pack_is_sold_in_the_same_box(
    shop: Shop, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(site, a_wheel(tmp_path, "acme_words", {"acme_words": "acme_words"}, {"acme_words": SOURCE}), PYTHON)
    assert registry.found_packs().left_out == ()
    told = {pack["pack_type"]: pack for pack in shop.get("/v1/packs").json()["packs"]}
    assert told["acme_words"]["prices"] == [{"unit": "run", "usd_micros": 1_000, "note": ""}]
    assert told["acme_words"]["result_schema"]["properties"]["words"]["type"] == "integer"
    wrong = shop.submit(a_body(pack_type="acme_words", inputs={"text": 1}))
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (422, "inputs.text")
    sent = shop.submit(a_body(pack_type="acme_words", inputs={"text": "three small words"}))
    assert sent.status_code == 202, sent.content
    messages()
    box = Box([registry.pack_modules()["acme_words"]])
    monkeypatch.setattr(execution, "box", lambda: box)
    try:
        assert work.execute(gear.row(uuid.UUID(sent.json()["run_id"]))) is End.COMMITTED
    finally:
        box.close()
    run = gear.row(uuid.UUID(sent.json()["run_id"]))
    assert (run.status, run.actual_cost_usd_micros) == ("COMPLETED", 1_000)
    assert work.stored_envelope(run)["data"] == {"words": 3}


@pytest.mark.parametrize(
    ("entry", "value", "source", "said"),
    [
        ("url", "acme_bad", SOURCE.replace('name="acme_words"', 'name="url"'), "runs.packs.url has this name"),
        ("acme_bad", "acme_bad", "raise SystemExit(1)", "it cannot be imported (SystemExit: 1)"),
        ("acme_bad", "acme_bad", "import no_such_module_of_acme", "it cannot be imported (ModuleNotFoundError"),
        ("acme_bad", "acme_bad", "PACK = 7", "its module defines no PACK"),
        ("acme_bad", "acme_bad:PACK", SOURCE, "it must name a module"),
        ("acme_bad", "acme_bad", SOURCE, "its pack is called 'acme_words'"),
        ("acme_bad", "acme_gone", SOURCE, "it cannot be imported (ModuleNotFoundError"),
    ],
)
def test_dpp_60_a_broken_package_is_left_out_and_named(
    site: Path, tmp_path: Path, entry: str, value: str, source: str, said: str
) -> None:
    before = dict(registry.pack_modules())
    install(site, a_wheel(tmp_path, "acme_bad", {entry: value}, {"acme_bad": source}), PYTHON)
    assert dict(registry.pack_modules()) == before
    (message,) = checks.packs_that_are_left_out(None)
    assert message.id == "dpp.W010"
    assert f"{entry} = {value} of acme_bad: {said}" in message.msg
    assert registry.pack_named("url").name == "url"


def updated(site: Path, tmp_path: Path, source: str) -> None:
    shutil.rmtree(site / "acme_words-1.0.dist-info")
    (site / "acme_words.py").unlink()
    install(site, a_wheel(tmp_path, "acme_words", {"acme_words": "acme_words"}, {"acme_words": source}), PYTHON)


def held(shop: Shop, site: Path, tmp_path: Path, *, hold: str) -> Run:
    install(site, a_wheel(tmp_path, "acme_words", {"acme_words": "acme_words"}, {"acme_words": SOURCE}), PYTHON)
    reservation = {"max_cost_usd": hold, "timebox_sec": 20}
    sent = shop.submit(a_body(pack_type="acme_words", inputs={"text": "two words"}, reservation=reservation))
    assert sent.status_code == 202, sent.content
    messages()
    run = gear.row(uuid.UUID(sent.json()["run_id"]))
    assert run.price_version == "1"
    return run


def worked(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    box = Box([registry.pack_modules()["acme_words"]])
    monkeypatch.setattr(execution, "box", lambda: box)
    try:
        assert work.execute(run) is End.COMMITTED
    finally:
        box.close()
    return gear.row(run.run_id)


@pytest.mark.contract("DPP-93")
def test_dpp_93_an_update_reprices_no_held_run(
    shop: Shop, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = held(shop, site, tmp_path, hold="0.0200")
    updated(site, tmp_path, DEARER)
    told = {pack["pack_type"]: pack for pack in shop.get("/v1/packs").json()["packs"]}["acme_words"]
    assert (told["price_version"], told["prices"][0]["usd_micros"]) == ("2", 5_000)
    assert "price list" not in explain(run, now=clock.now()).stands
    with capture_logs() as logs:
        run = worked(run, monkeypatch)
    assert (run.status, run.actual_cost_usd_micros) == ("COMPLETED", 1_000)
    assert not [line for line in logs if line["event"] == "price list gone"]
    later = shop.submit(a_body(pack_type="acme_words", inputs={"text": "two words"}))
    after = gear.row(uuid.UUID(later.json()["run_id"]))
    messages()
    assert (after.price_version, worked(after, monkeypatch).actual_cost_usd_micros) == ("2", 5_000)
    recovery.law_holds(shop.tenant)


@pytest.mark.contract("DPP-93")
@pytest.mark.parametrize(
    ("hold", "status", "charge"), [("0.0200", "COMPLETED", 5_000), ("0.0040", "FAILED", 4_000)], ids=["fits", "over"]
)
def test_dpp_93_a_list_that_is_gone_is_told_and_the_hold_never_passed(
    shop: Shop, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hold: str, status: str, charge: int
) -> None:
    run = held(shop, site, tmp_path, hold=hold)
    updated(site, tmp_path, FORGETS)
    assert "version 1, is gone: it is charged by version 2" in explain(run, now=clock.now()).stands
    with capture_logs() as logs:
        run = worked(run, monkeypatch)
    (line,) = [line for line in logs if line["event"] == "price list gone"]
    assert (line["accepted_under"], line["charged_by"], line["run_id"]) == ("1", "2", str(run.run_id))
    assert (run.status, run.actual_cost_usd_micros) == (status, min(charge, run.reservation_max_cost_usd_micros))
    assert "is gone" not in explain(run, now=clock.now()).stands
    recovery.law_holds(shop.tenant)


@pytest.mark.contract("DPP-93")
def test_dpp_93_a_version_has_one_list(site: Path, tmp_path: Path) -> None:
    source = DEARER.replace('price_version="2"', 'price_version="1"')
    install(site, a_wheel(tmp_path, "acme_words", {"acme_words": "acme_words"}, {"acme_words": source}), PYTHON)
    (fault,) = registry.found_packs().left_out
    assert "price_version '1' is empty, or one of earlier_prices" in fault
