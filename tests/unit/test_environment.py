"""A wrong environment stops the start and names every wrong variable, never its value."""

import re
from pathlib import Path

import pytest
from pydantic.fields import FieldInfo

from dpp_project import env

GOOD = {
    "DATABASE_URL": "postgresql://dpp:s%40cret@127.0.0.1:5432/dpp",
    "REDIS_URL": "redis://127.0.0.1:6379/0",
    "DPP_SECRET_KEY": "k" * 50,
    "DPP_QUEUE_URL": "http://127.0.0.1:4566/000000000000/dpp-runs",
    "DPP_DLQ_URL": "http://127.0.0.1:4566/000000000000/dpp-runs-dlq",
}


def test_the_least_environment_is_enough() -> None:
    read = env.read_environment(GOOD)
    assert read.DPP_BUCKET == "dpp-results"
    assert read.DPP_DEBUG is False
    assert read.DPP_HTTPS is True
    assert read.DPP_ENABLE_PROBE_PACK is False


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", "mysql://x/y"),
        ("DATABASE_URL", "postgresql://"),
        ("DATABASE_URL", "postgresql://host:notaport/x"),
        ("REDIS_URL", "localhost:6379"),
        ("DPP_SECRET_KEY", "short"),
        ("DPP_API_PORT", "70000"),
        ("DPP_API_THREADS", "many"),
        ("DPP_WORKSPACES_URL", "https://203.0.113.7:8001"),
        ("DPP_WORKSPACES_URL", "https://[2001:db8::1]"),
        ("DPP_WORKSPACES_URL", "https://apps.example/w"),
        ("DPP_WORKSPACES_URL", "https://apps.example/"),
        ("DPP_WORKSPACES_PROXY_PORT", "0"),
        ("DPP_DEBUG", "perhaps"),
        ("DPP_RATE_LIMIT_ON_REDIS_FAILURE", "ajar"),
        ("DPP_LOG_LEVEL", "LOUD"),
        ("DPP_CLOCK_OFFSET_SECONDS", "1e9"),
        ("DPP_BUCKET", "qz"),
        ("DPP_METRICS_TOKEN", "tiny"),
        ("S3_ENDPOINT_URL", "s3.example"),
        ("DPP_EVENTS_QUEUE_URL", "dpp-events"),
        ("DPP_REPORT_TIME_ZONE", "Asia/Atlantis"),
    ],
)
def test_a_wrong_value_names_its_variable_and_keeps_the_value_to_itself(name: str, value: str) -> None:
    with pytest.raises(env.EnvironmentInvalid) as refused:
        env.read_environment(GOOD | {name: value})
    message = str(refused.value)
    assert f"  {name}: " in message
    assert value not in message.replace(env.Environment.model_fields[name].description or "", "")


@pytest.mark.parametrize("name", sorted(GOOD))
def test_a_missing_variable_is_named(name: str) -> None:
    for environ in ({key: GOOD[key] for key in GOOD if key != name}, GOOD | {name: ""}):
        with pytest.raises(env.EnvironmentInvalid, match=f"{name}: is not set"):
            env.read_environment(environ)


def test_every_wrong_variable_is_named_at_once() -> None:
    with pytest.raises(env.EnvironmentInvalid) as refused:
        env.read_environment({"REDIS_URL": "x", "DPP_API_PORT": "0"})
    assert all(name in str(refused.value) for name in ("DATABASE_URL", "REDIS_URL", "DPP_API_PORT", "DPP_QUEUE_URL"))


def test_a_mistyped_name_is_found() -> None:
    assert env.unknown_names({"DPP_WORKER_CONCURENCY": "4", "DPP_API_PORT": "1", "PATH": "/bin"}) == [
        "DPP_WORKER_CONCURENCY"
    ]


def as_the_page_says_it(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if isinstance(field.default, bool):
        return "on" if field.default else "off"
    return "unset" if field.default in (None, []) else f"`{field.default}`"


def test_the_operations_page_has_every_variable_with_its_default_and_no_other() -> None:
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
    table = page.partition("\n## Settings\n")[2].partition("\n#")[0]
    rows = re.findall(r"^\| `([A-Z0-9_]+)` \| ([^|]*) \| (.*) \|$", table, re.MULTILINE)
    said = {name: (default, meaning) for name, default, meaning in rows}
    assert len(said) == len(rows)
    assert "TESSDATA_PREFIX" in said  # Tesseract's own, which the ocr pack reads
    fields = env.Environment.model_fields.items()
    assert said == {name: (as_the_page_says_it(field), field.description) for name, field in fields} | {
        "TESSDATA_PREFIX": said["TESSDATA_PREFIX"]
    }
