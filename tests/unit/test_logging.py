"""What a caller sent and what opens doors never reaches a log line (DPP-73)."""

import io
import json
import logging
import logging.config
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
import structlog
from pydantic import BaseModel

from dpp_project.observe import logging as dpp_logging
from dpp_project.observe import tracing

CANARY = "canary-7f3a"
KEY = "dpp_Ab3dEf9h_" + "s3cr3t" * 7 + "x"


class Lines:
    def __init__(self) -> None:
        self.stream = io.StringIO()

    def all(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def last(self) -> dict[str, Any]:
        return self.all()[-1]


@pytest.fixture
def lines() -> Iterator[Lines]:
    captured = Lines()
    settings = dpp_logging.logging_configuration(service="api", level="INFO")
    settings["handlers"]["lines"]["stream"] = captured.stream
    logging.config.dictConfig(settings)
    yield captured
    dpp_logging.set_up_logging(service="command", level="INFO")
    tracing.bind_trace_id(None)
    structlog.contextvars.clear_contextvars()


@pytest.mark.contract("DPP-73")
def test_dpp_73_a_line_is_json_with_the_fixed_fields(lines: Lines) -> None:
    tracing.bind_trace_id("t_1")
    structlog.contextvars.bind_contextvars(run_id="r1", tenant_id="t_demo")
    structlog.get_logger("dpp.worker").info("claimed", version_before=2, version_after=3, finalize_stage="CLAIMED")
    line = lines.last()
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "claimed",
        "level": "info",
        "logger": "dpp.worker",
        "service": "api",
        "trace_id": "t_1",
        "run_id": "r1",
        "tenant_id": "t_demo",
        "version_before": 2,
        "version_after": 3,
        "finalize_stage": "CLAIMED",
    }


@pytest.mark.contract("DPP-73")
def test_dpp_73_the_standard_library_logs_the_same_way(lines: Lines) -> None:
    logging.getLogger("some.library").warning("retrying %s", "once")
    assert lines.last()["event"] == "retrying once"
    assert lines.last()["service"] == "api"


@pytest.mark.contract("DPP-73")
@pytest.mark.parametrize(
    "name", ["inputs", "input", "api_key", "Authorization", "password", "secret_key", "body", "lease_token"]
)
def test_dpp_73_fields_with_telling_names_are_masked(lines: Lines, name: str) -> None:
    structlog.get_logger("x").info("event", **{name: CANARY, "nested": {name: {"deep": CANARY}}})
    assert CANARY not in lines.stream.getvalue()
    assert lines.last()[name] == "[redacted]"


@pytest.mark.contract("DPP-73")
@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (f"key {KEY} used", "dpp_Ab3dEf9h_[redacted]"),
        ("signed with whsec_" + "C2FVs/cr3t+" * 3 + "=", "signed with whsec_[redacted]"),
        (f"https://s3/x?X-Amz-Credential={CANARY}&X-Amz-Signature={CANARY}&n=1", "&n=1"),
        (f"postgresql://dpp:{CANARY}@db/x", "postgresql://dpp:[redacted]@db/x"),
        (f"Authorization: Bearer {CANARY}{CANARY}", "Bearer [redacted]"),
    ],
)
def test_dpp_73_secrets_are_masked_wherever_they_stand(lines: Lines, text: str, kept: str) -> None:
    structlog.get_logger("x").info(text, note=text, many=[text], exc=ValueError(text))
    logging.getLogger("y").error("%s", text)
    written = lines.stream.getvalue()
    assert CANARY not in written
    assert "s3cr3t" not in written
    assert kept in lines.last()["event"]


class Strict(BaseModel):
    number: int


@pytest.mark.contract("DPP-73")
def test_dpp_73_an_exception_shows_its_place_and_never_the_input_it_quotes(lines: Lines) -> None:
    try:
        Strict.model_validate({"number": CANARY})
    except ValueError:
        structlog.get_logger("x").exception("failed")
        logging.getLogger("y").exception("failed")
    assert CANARY not in lines.stream.getvalue()
    for line in lines.all():
        assert line["exception"]["type"] == "pydantic_core._pydantic_core.ValidationError"
        assert "test_logging.py" in line["exception"]["frames"][0]
        assert "message" not in line["exception"]


@pytest.mark.contract("DPP-73")
def test_dpp_73_an_infrastructure_exception_keeps_its_message(lines: Lines) -> None:
    try:
        raise psycopg.OperationalError("connection refused to postgresql://dpp:pw@db/x")
    except psycopg.OperationalError:
        structlog.get_logger("x").exception("failed")
    assert lines.last()["exception"]["message"] == "connection refused to postgresql://dpp:[redacted]@db/x"
