"""The envelope (DPP-33): its fields, its place, its size."""

import hashlib
import json
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest

from dpp_project.reasons import ReasonCode
from runs.box.outcomes import Done, Failed
from runs.models import Run, RunInputs
from runs.packs.pack import Artifact
from runs.worker import result_envelope
from runs.worker.result_envelope import BYTES_MAX, Envelope

pytestmark = pytest.mark.contract("DPP-33")

RUN_ID = uuid.UUID("01980f6e-7a51-7c2e-9d0b-0f5a3c1b2d4e")
AT = datetime(2026, 3, 2, 0, 30, 5, tzinfo=UTC)
PREFIX = f"dpp/t_acme/2026/03/01/{RUN_ID}/"


def a_run() -> Run:
    run = Run(
        run_id=RUN_ID,
        tenant_id="t_acme",
        pack_type="url",
        profile_version="PROFILE_DPP_0_4_2_2",
        trace_id="t_trace",
        reservation_max_cost_usd_micros=250_000,
        minimum_fee_usd_micros=5_000,
        created_at=datetime(2026, 3, 1, 23, 59, tzinfo=UTC),
    )
    run.sent = RunInputs(min_reliability_score=0.8)
    return run


def done(**values: Any) -> Done:
    arguments: dict[str, Any] = {"data": {"answer": "42"}, "artifacts": (), "spent_micros": 50_000, "tokens": 7}
    return Done(**(arguments | values))


def seal(outcome: Done | Failed, *, used_micros: int = 50_000) -> Envelope:
    return result_envelope.seal_envelope(a_run(), outcome, used_micros=used_micros, generated_at=AT)


def read(sealed: Envelope) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(sealed.document.content)
    return found


def test_dpp_33_the_envelope_is_the_documented_one() -> None:
    sealed = seal(
        done(discard_log=[{"url": "a", "reason": "TIMEOUT"}], blocked_log=[{"url": "b", "reason": "LOOPBACK"}],
             reliability=0.9)
    )  # fmt: skip
    assert read(sealed) == {
        "schema_version": "0.4.2.2",
        "run_id": str(RUN_ID),
        "pack_type": "url",
        "status": "COMPLETED",
        "generated_at": "2026-03-02T00:30:05Z",
        "cost": {
            "reserved_usd": "0.2500",
            "used_usd": "0.0500",
            "minimum_fee_usd": "0.0050",
            "reserved_usd_micros": 250_000,
            "used_usd_micros": 50_000,
            "minimum_fee_usd_micros": 5_000,
        },
        "data": {"answer": "42"},
        "artifacts": {},
        "logs": {
            "discard_log": [{"url": "a", "reason": "TIMEOUT"}],
            "blocked_log": [{"url": "b", "reason": "LOOPBACK"}],
        },
        "meta": {
            "trace_id": "t_trace",
            "profile_version": "PROFILE_DPP_0_4_2_2",
            "tokens_consumed": 7,
            "reliability": {"score": 0.9, "minimum": 0.8, "met": True},
        },
    }
    assert sealed.document.key == PREFIX + "pack_envelope.json"
    assert sealed.document.content_type == "application/json; charset=utf-8"
    assert sealed.files == ()


def test_dpp_33_a_failed_run_has_an_envelope_too() -> None:
    failed = Failed(reason=ReasonCode.PACK_FAILED, detail="This cannot be read.", spent_micros=900, tokens=3)
    found = read(seal(failed, used_micros=5_000))
    assert found["status"] == "FAILED"
    assert found["problem"] == {"reason_code": "PACK_FAILED", "detail": "This cannot be read."}
    assert found["cost"]["used_usd"] == "0.0050"
    assert (found["data"], found["artifacts"]) == ({}, {})
    assert found["meta"]["reliability"] == {"score": None, "minimum": 0.8, "met": None}


@pytest.mark.parametrize(("score", "met"), [(None, None), (0.79, False), (0.8, True)])
def test_envelope_says_whether_the_reliability_asked_for_was_met(*, score: float | None, met: bool | None) -> None:
    assert read(seal(done(reliability=score)))["meta"]["reliability"]["met"] is met


def test_envelope_names_each_file_with_place_size_and_hash() -> None:
    sealed = seal(done(artifacts=(Artifact(name="page.md", content=b"# page", content_type="text/markdown"),)))
    assert read(sealed)["artifacts"] == {
        "page.md": {
            "key": PREFIX + "artifacts/page.md",
            "content_type": "text/markdown",
            "size": 6,
            "sha256": hashlib.sha256(b"# page").hexdigest(),
        }
    }
    assert [(file.key, file.content, file.content_type) for file in sealed.files] == [
        (PREFIX + "artifacts/page.md", b"# page", "text/markdown")
    ]


LONG = "\u00e9" * 600_000  # 1.2 MB in UTF-8


def restored(sealed: Envelope) -> dict[str, Any]:
    """The envelope with every moved part back in its place."""
    document = read(sealed)
    contents = {file.key: file.content for file in sealed.files}
    about = [entry for entry in document["artifacts"].values() if "part" in entry]
    for entry in sorted(about, key=lambda entry: entry["part"] != "data"):
        section, _, name = entry["part"].partition(".")
        part = json.loads(contents[entry["key"]])
        if name:
            document[section][name] = part
        else:
            document[section] = part
    return document


@pytest.mark.parametrize(
    ("outcome", "parts"),
    [
        (done(data={"text": LONG, "score": 1}), ["data.text"]),
        (done(data={"a": "x" * 700_000, "b": "y" * 600_000, "c": "z" * 10}), ["data.a"]),
        (done(data={"a": "x" * 1_000_100, "b": "y" * 1_000_000}), ["data.a", "data.b"]),
        (done(data={}, discard_log=[{"url": "u" * 1_000}] * 2_000), ["logs.discard_log"]),
        (done(data={str(number): "x" * 90 for number in range(20_000)}), ["data"]),
        (done(data={"n/../a\u0000me": LONG}), ["data.n/../a\u0000me"]),
    ],
    ids=["one member", "only the largest", "two members", "a log", "many small members", "an odd name"],
)
def test_dpp_33_what_passes_a_megabyte_moves_into_files_and_nothing_is_lost(outcome: Done, parts: list[str]) -> None:
    sealed = seal(outcome)
    found = read(sealed)
    assert len(sealed.document.content) <= BYTES_MAX
    assert [entry["part"] for entry in found["artifacts"].values()] == parts
    for file in sealed.files:
        assert file.key.removeprefix(PREFIX + "artifacts/").isprintable()
        assert "/" not in file.key.removeprefix(PREFIX + "artifacts/")
    back = restored(sealed)
    assert back["data"] == outcome.data
    assert back["logs"]["discard_log"] == outcome.discard_log


def test_envelope_moved_parts_keep_out_of_the_way_of_the_packs_own_files() -> None:
    own = Artifact(name="data.text.json", content=b"{}", content_type="application/json")
    sealed = seal(done(data={"text": LONG}, artifacts=(own,)))
    assert list(read(sealed)["artifacts"]) == ["data.text.json", "data.text-1.json"]


def test_envelope_fits_with_as_many_files_as_a_pack_may_make() -> None:
    files = tuple(
        Artifact(name="\u00fc" * 117 + f"{number:03d}", content=b"x", content_type="text/plain")
        for number in range(100)
    )
    sealed = seal(done(data={"text": "x" * 999_000}, artifacts=files))
    assert len(sealed.document.content) <= BYTES_MAX
    assert len(read(sealed)["artifacts"]) == 101
