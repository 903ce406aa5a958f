"""Packs that behave and packs that do not, in a real box: each its reason, and the box works on."""

import hashlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dpp_project.processes import process_tree
from dpp_project.reasons import ReasonCode
from runs.box.box import Box
from runs.box.outcomes import Done, Failed, PackOutcome
from runs.box.running import FETCHES_MAX, LOG_BYTES_MAX
from runs.packs.pack import Artifact, EngineUnavailable
from tests.gear.builders.box import MODULE, a_job, begin, lives, run, with_argument
from tests.gear.builders.packs import PackLog, no_upload
from tests.gear.waiting import wait_until

pytestmark = pytest.mark.contract("DPP-32")

SHORT = 0.5
ONE_PROCESS_IS_BACK = 2.0


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    made = Box([MODULE])
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _alive_after_each(box: Box) -> Iterator[None]:
    """Whatever a pack did, the next run of the same box works, and nothing of the last one is left."""
    yield
    done(run(box, "FREE"))
    assert box.nursery_pid() is not None


def done(outcome: PackOutcome) -> Done:
    assert isinstance(outcome, Done), outcome
    return outcome


def failed(outcome: PackOutcome, reason: ReasonCode) -> Failed:
    assert isinstance(outcome, Failed), outcome
    assert outcome.reason is reason, outcome
    return outcome


# What a good pack has and gives.


@pytest.mark.contract("DPP-66")
def test_box_a_pack_gives_its_answer_its_cost_its_logs_and_its_files(box: Box) -> None:
    log = PackLog()
    job = a_job("WHOLE", inputs={"number": 7}, artifacts_wanted={"include_page": True})
    found = done(begin(box, job, log=log).wait())
    assert found == Done(
        data={"wanted": {"include_page": True}, "left": 400, "number": 7},
        artifacts=(Artifact(name="page.md", content=b"# \x00 page" * 1000, content_type="text/markdown"),),
        spent_micros=600,
        tokens=15,
        discard_log=[{"url": "a", "reason": "TIMEOUT"}],
        blocked_log=[{"url": "b", "reason": "LOOPBACK"}],
        reliability=0.75,
    )
    assert log.events == [("working", {"step": 1, "name": "x"})]


def test_box_holds_nothing_of_the_worker(box: Box) -> None:
    os.environ["DPP_CANARY_SECRET"] = "canary"
    with_canary = Box([MODULE])
    try:
        found = done(run(with_canary, "LOOK_AROUND")).data
    finally:
        with_canary.close()
        del os.environ["DPP_CANARY_SECRET"]
    threads = {"OMP_THREAD_LIMIT": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    allowed = {"PATH", "LANG", "TZ", "TESSDATA_PREFIX", "MALLOC_ARENA_MAX", "TMPDIR", *threads}
    assert isinstance(found["environment"], dict)
    assert set(found["environment"]) <= allowed
    assert threads.items() <= found["environment"].items()
    assert "canary" not in str(found)
    assert found["modules"] == []
    assert found["session"] is True
    assert isinstance(found["open"], list)
    assert [str(name).split(":")[0] for name in found["open"]] == ["socket"]


def test_box_a_pack_reads_the_variables_it_named_and_the_next_one_does_not(box: Box) -> None:
    assert done(run(box, "READ_ENVIRONMENT", environment={"ENGINE_KEY": "k"})).data == {"key": "k"}
    assert done(run(box, "READ_ENVIRONMENT")).data == {"key": None}


@pytest.mark.contract("HRD-18")
def test_hrd_18_a_job_yields_to_its_neighbours(box: Box) -> None:
    """Ten steps below its worker, whose own priority is whatever the suite was started with."""
    found = done(run(box, "HOW_IT_STANDS")).data
    assert (found["nice"], found["oom_score"]) == (min(os.nice(0) + 10, 19), 800)


@pytest.mark.contract("HRD-15")
def test_hrd_15_no_two_jobs_of_one_zygote_draw_the_same(box: Box) -> None:
    """OpenSSL tells a fork by its process number, and in namespaces of their own all of them have the same."""
    drawn = [done(run(box, "HOW_IT_STANDS")).data for _ in range(3)]
    assert len({one["openssl"] for one in drawn}) == 3
    assert len({one["python"] for one in drawn}) == 3


def test_box_a_pack_has_no_network_nor_have_its_children(box: Box) -> None:
    found = done(run(box, "NO_NETWORK")).data
    assert found == {"AF_INET": "EACCES", "AF_INET6": "EACCES", "AF_UNIX": "EACCES", "child": 13, "pair": "x"}


def test_box_an_upload_travels_through_the_worker(box: Box) -> None:
    content = os.urandom(3_000_000)
    keys: list[str] = []

    def fetch(key: str) -> bytes:
        keys.append(key)
        return content

    job = a_job("FETCH", inputs={"key": "uploads/t_one/a.png"})
    found = done(begin(box, job, fetch_upload=fetch).wait())
    assert found.data == {"size": 3_000_000, "sha256": hashlib.sha256(content).hexdigest()}
    assert keys == ["uploads/t_one/a.png"]


def test_box_an_upload_that_is_refused_fails_the_pack(box: Box) -> None:
    job = a_job("FETCH", inputs={"key": "uploads/t_two/a.png"})
    found = failed(begin(box, job, fetch_upload=no_upload).wait(), ReasonCode.PACK_FAILED)
    assert found.detail == "There is no upload uploads/t_two/a.png."


def test_box_a_store_that_is_away_is_the_engines_failure(box: Box) -> None:
    def fetch(_key: str) -> bytes:
        raise EngineUnavailable("The store does not answer.")

    found = begin(box, a_job("FETCH"), fetch_upload=fetch).wait()
    assert failed(found, ReasonCode.ENGINE_UNAVAILABLE).detail == "The store does not answer."


def test_box_files_of_a_run_go_with_it(box: Box) -> None:
    where = Path(str(done(run(box, "LEAVE_FILES")).data["cwd"]))
    assert where.name.isdigit()
    assert not where.exists()


# How packs fail.


@pytest.mark.parametrize(
    ("attribute", "reason", "detail"),
    [
        ("REFUSE", ReasonCode.PACK_FAILED, "This cannot be read."),
        ("RAISE", ReasonCode.PACK_FAILED, "The pack stopped on a ValueError."),
        ("NOT_JSON", ReasonCode.PACK_FAILED, "The pack stopped on a ValueError."),
        ("TOO_DEEP", ReasonCode.PACK_FAILED, "The pack stopped on a RecursionError."),
        ("NOT_A_DICT", ReasonCode.PACK_FAILED, "The pack stopped on a TypeError."),
        ("THREADS", ReasonCode.PACK_FAILED, "The pack stopped on a RuntimeError."),
        ("HUGE_FILE", ReasonCode.PACK_FAILED, "The pack stopped on a OSError."),
        ("TOO_MUCH", ReasonCode.PACK_FAILED, "The result is larger than a run may answer."),
        ("FLOOD", ReasonCode.PACK_FAILED, "The result is larger than a run may answer."),
        ("MISSING", ReasonCode.ENGINE_UNAVAILABLE, "Not installed: tessdata kor (apt install tesseract-ocr-kor)"),
        ("SYS_EXIT", ReasonCode.PACK_CRASHED, "The pack left its process (SystemExit)."),
        ("SEGFAULT", ReasonCode.PACK_CRASHED, "The pack's process ended without an answer (SIGSEGV)."),
        ("ABORT", ReasonCode.PACK_CRASHED, "The pack's process ended without an answer (SIGABRT)."),
        ("GARBAGE", ReasonCode.PACK_CRASHED, "The pack's process wrote what is no answer."),
        ("GARBAGE_IN_FRAME", ReasonCode.PACK_CRASHED, "The pack's process wrote what is no answer."),
        ("MANY_PROCESSES", ReasonCode.PACK_CRASHED, "The pack started too many processes."),
        ("HOARD", ReasonCode.PACK_MEMORY_EXCEEDED, "The pack passed its memory limit."),
        ("HOARD_NATIVELY", ReasonCode.PACK_MEMORY_EXCEEDED, "The pack passed its memory limit."),
        ("HOARD_IN_CHILDREN", ReasonCode.PACK_MEMORY_EXCEEDED, "The pack passed its memory limit."),
    ],
)
def test_dpp_32_a_pack_that_goes_wrong_ends_with_its_reason(
    attribute: str, reason: ReasonCode, detail: str, box: Box
) -> None:
    assert failed(run(box, attribute), reason).detail == detail


_DONE = '{"kind":"done","data":%s,"discard_log":[],"blocked_log":[],"reliability":%s}'
_CRASHED = "The pack's process wrote what is no answer."
_UNFIT = "The result holds what no document can."


@pytest.mark.contract("HRD-17")
@pytest.mark.parametrize(
    ("said", "reason", "detail"),
    [
        (_DONE % ('{"a":NaN}', "null"), ReasonCode.PACK_FAILED, _UNFIT),
        (_DONE % ('{"a":[1,-Infinity]}', "null"), ReasonCode.PACK_FAILED, _UNFIT),
        (_DONE % ('{"a":1e999}', "null"), ReasonCode.PACK_FAILED, _UNFIT),
        (_DONE % ("{}", "7"), ReasonCode.PACK_FAILED, _UNFIT),
        (_DONE % ("{}", "[]"), ReasonCode.PACK_FAILED, _UNFIT),
        ('{"kind":"artifact","name":"a","content_type":"a/b\\r\\nX: y"}', ReasonCode.PACK_FAILED, _UNFIT),
        ('{"kind":"artifact","name":"a","content_type":""}', ReasonCode.PACK_FAILED, _UNFIT),
        ('{"kind":"artifact","name":"../a","content_type":"a/b"}', ReasonCode.PACK_CRASHED, _CRASHED),
        ('{"kind":"charge","spent_micros":-1,"tokens":0}', ReasonCode.PACK_CRASHED, _CRASHED),
        ('{"kind":"charge","spent_micros":1.5,"tokens":0}', ReasonCode.PACK_CRASHED, _CRASHED),
        ('{"kind":"charge","spent_micros":0,"tokens":99999999999999999999}', ReasonCode.PACK_CRASHED, _CRASHED),
        ('{"kind":"failed","reason":"CANCELED_BY_OWNER","detail":""}', ReasonCode.PACK_CRASHED, _CRASHED),
        ('{"kind":"failed","reason":"PACK_FAILED","detail":"a\\u0000b"}', ReasonCode.PACK_FAILED, "a b"),
    ],
)  # fmt: skip
def test_hrd_17_words_that_no_result_can_hold_fail_the_pack(
    said: str, reason: ReasonCode, detail: str, box: Box
) -> None:
    assert failed(run(box, "SAYS", inputs={"key": said}), reason) == Failed(reason=reason, detail=detail)


@pytest.mark.contract("HRD-17")
def test_hrd_17_a_job_that_asks_and_does_not_read_is_given_no_more(box: Box) -> None:
    """One answer lies in its worker's memory, not one for each question."""
    asked: list[str] = []

    def fetch(key: str) -> bytes:
        asked.append(key)
        return bytes(8_000_000)

    found = begin(box, a_job("FETCH_AND_NOT_READ", timebox_seconds=60), fetch_upload=fetch).wait()
    assert failed(found, ReasonCode.PACK_CRASHED).detail == _CRASHED
    assert asked == ["x"]


@pytest.mark.contract("HRD-17")
def test_hrd_17_a_job_asks_for_so_many_files_and_no_more(box: Box) -> None:
    asked: list[str] = []

    def fetch(key: str) -> bytes:
        asked.append(key)
        return b""

    failed(begin(box, a_job("FETCH_AND_NOT_READ"), fetch_upload=fetch).wait(), ReasonCode.PACK_CRASHED)
    assert len(asked) == FETCHES_MAX


CHARGE_LINE = '{"kind":"charge","spent_micros":0,"tokens":0}'
SHORT_LOG = '{"kind":"log","event":"","values":{}}'
LONG_LOG = '{"kind":"log","event":"","values":{"x":"' + "x" * 100_000 + '"}}'


@pytest.mark.contract("HRD-18")
@pytest.mark.parametrize(
    ("said", "count", "lines"),
    [
        pytest.param(SHORT_LOG, 20_000, LOG_BYTES_MAX // len(SHORT_LOG), id="short log lines"),
        pytest.param(LONG_LOG, 1_000, LOG_BYTES_MAX // len(LONG_LOG), id="long log lines"),
        pytest.param(CHARGE_LINE, 20_000, 0, id="charges"),
    ],
)
def test_hrd_18_a_job_that_babbles_costs_its_worker_little(said: str, count: int, lines: int, box: Box) -> None:
    """Its worker's threads and log are those of all runs beside it."""
    log = PackLog()
    job = a_job("BABBLE", inputs={"key": said, "number": count}, timebox_seconds=60)
    failed(begin(box, job, log=log).wait(), ReasonCode.PACK_CRASHED)
    assert len(log.events) == lines


@pytest.mark.parametrize("code", [0, 1, 255])
def test_dpp_32_a_pack_that_exits_has_crashed_and_what_it_spent_is_known(code: int, box: Box) -> None:
    found = failed(run(box, "EXIT", inputs={"number": code}), ReasonCode.PACK_CRASHED)
    assert found == Failed(
        reason=ReasonCode.PACK_CRASHED,
        detail=f"The pack's process ended without an answer (exit code {code}).",
        spent_micros=700,
        tokens=2,
    )


def test_box_what_an_exception_says_stays_in_the_box(box: Box) -> None:
    log = PackLog()
    outcome = begin(box, a_job("RAISE"), log=log).wait()
    logged = log.values("pack stopped on an exception")
    assert logged["exception"] == "ValueError"
    assert any("nasty_packs.py" in frame for frame in logged["frames"])
    assert "canary" not in str(log.events) + str(outcome)


@pytest.mark.parametrize("attribute", ["SWALLOW_ALL", "DEAF", "BACKTRACK", "HASH", "HOARD_AND_SWALLOW"])
def test_dpp_32_nothing_outlasts_its_timebox(attribute: str, box: Box) -> None:
    begun = time.monotonic()
    found = failed(run(box, attribute, timebox_seconds=SHORT), ReasonCode.TIMEBOX_EXCEEDED)
    assert SHORT <= time.monotonic() - begun < SHORT + ONE_PROCESS_IS_BACK
    assert found.spent_micros == (987 if attribute == "SWALLOW_ALL" else 0)


def test_dpp_32_a_guardian_that_is_frozen_does_not_save_its_pack(box: Box) -> None:
    nursery = box.nursery_pid()
    assert nursery is not None
    (zygote,) = process_tree.child_processes(nursery)
    running = begin(box, a_job("DEAF", timebox_seconds=SHORT))
    os.kill(zygote, signal.SIGSTOP)
    assert failed(running.wait(), ReasonCode.TIMEBOX_EXCEEDED)
    assert not lives(zygote)


@pytest.mark.contract("DPP-36")
def test_dpp_36_a_pack_is_stopped_before_its_cost_passes_the_hold(box: Box) -> None:
    found = failed(run(box, "PAST_THE_HOLD"), ReasonCode.PACK_FAILED)
    assert found.spent_micros == 900
    assert found.detail == "The next step would have cost more than was held."


@pytest.mark.contract("DPP-36")
def test_dpp_36_a_pack_that_reports_no_cost_has_failed(box: Box) -> None:
    assert failed(run(box, "UNPAID"), ReasonCode.PACK_FAILED).detail == "The pack reported no cost."


def test_box_what_a_pack_prints_goes_nowhere(box: Box, capfd: pytest.CaptureFixture[str]) -> None:
    assert done(run(box, "NOISE")).data == {"said": True}
    assert "noise" not in "".join(capfd.readouterr())


def test_box_a_child_that_returns_where_its_parent_did_is_not_heard(box: Box) -> None:
    for _ in range(5):
        assert done(run(box, "FORK_AND_RETURN")).data == {"child": False}


def test_dpp_32_children_end_with_their_pack(box: Box) -> None:
    done(run(box, "FAMILY", inputs={"key": "family-a"}))
    assert with_argument("family-a") == []


def test_dpp_32_children_end_with_a_pack_that_is_killed(box: Box) -> None:
    running = begin(box, a_job("FAMILY_THEN_BUSY", timebox_seconds=2, inputs={"key": "family-b"}))
    found: list[PackOutcome] = []
    waiting = threading.Thread(target=lambda: found.append(running.wait()))
    waiting.start()
    wait_until(lambda: len(with_argument("family-b")) == 2, what="both children")
    waiting.join()
    failed(found[0], ReasonCode.TIMEBOX_EXCEEDED)
    assert with_argument("family-b") == []


def test_box_eight_at_once_do_not_touch_each_other(box: Box) -> None:
    wanted = ["WHOLE", "SEGFAULT", "HOARD", "FAMILY", "EXIT", "FREE", "RAISE", "SWALLOW_ALL"]

    def one(attribute: str) -> Any:
        outcome = run(box, attribute, timebox_seconds=8 if attribute != "SWALLOW_ALL" else SHORT)
        return "DONE" if isinstance(outcome, Done) else getattr(outcome, "reason", None)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(one, wanted * 3))
    assert found == ["DONE", "PACK_CRASHED", "PACK_MEMORY_EXCEEDED", "DONE", "PACK_CRASHED", "DONE", "PACK_FAILED",
                     "TIMEBOX_EXCEEDED"] * 3  # fmt: skip


@pytest.mark.contract("DPP-89")
def test_dpp_89_what_one_run_leaves_no_other_run_can_see(box: Box) -> None:
    """Two tenants by turns, one of them twice in a row, at once and one after the other."""

    def one(tenant_id: str) -> Any:
        outcome = run(box, "PLANT", inputs={"key": tenant_id}, caller=tenant_id)
        assert isinstance(outcome, Done)
        return outcome.data

    turns = ["t_one", "t_two", "t_two"] * 4
    with ThreadPoolExecutor(3) as pool:
        found = [one(tenant_id) for tenant_id in turns] + list(pool.map(one, turns))
    assert [data["found"] for data in found] == [[]] * len(found)
    assert all(len(data["then"]) >= 8 for data in found)  # what was planted can be seen where it was
