"""compose.yaml and Dockerfile say what the code reads, and nothing floats."""

import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from dpp_project import constants, env, serve
from dpp_project.devstack.programs import REPOSITORY

COMPOSE = REPOSITORY / "compose.yaml"
OUTSIDE = {"postgres", "valkey", "localstack"}
PARTS = {"api", "worker", "beat", "events"}


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    loaded: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    return loaded["services"]


def test_dpp_77_every_part_and_every_service_is_there(services: dict[str, Any]) -> None:
    assert set(services) == OUTSIDE | PARTS | {"init"}


def test_images_are_pinned(services: dict[str, Any]) -> None:
    for name in OUTSIDE:
        assert re.search(r":\d+(\.\d+)*(-\w+)?$", services[name]["image"]), services[name]["image"]
    assert services["localstack"]["image"] == "localstack/localstack:4.14.0"
    assert {services[name]["image"] for name in PARTS | {"init"}} == {"dpp:local"}


def test_the_platform_would_start_with_the_environment_given(services: dict[str, Any]) -> None:
    for name in PARTS | {"init"}:
        given = {key: _default(str(value)) for key, value in services[name]["environment"].items()}
        env.read(given)
        assert set(given) <= set(env.Environment.model_fields), name


def _default(value: str) -> str:
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value)


def test_nothing_is_published_beyond_loopback(services: dict[str, Any]) -> None:
    published = [port for service in services.values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_what_is_waited_for_can_say_that_it_is_well(services: dict[str, Any]) -> None:
    for name in OUTSIDE | {"api"}:
        assert services[name]["healthcheck"]["test"], name
    assert {on: need["condition"] for on, need in services["init"]["depends_on"].items()} == dict.fromkeys(
        OUTSIDE, "service_healthy"
    )
    for name in PARTS:
        assert services[name]["depends_on"]["init"]["condition"] == "service_completed_successfully"


def test_dpp_78_a_worker_is_given_longer_than_its_own_grace(services: dict[str, Any]) -> None:
    assert int(services["worker"]["stop_grace_period"].removesuffix("s")) > constants.WORKER_GRACE_SECONDS


def test_dpp_78_events_are_given_longer_than_their_own_grace(services: dict[str, Any]) -> None:
    assert int(services["events"]["stop_grace_period"].removesuffix("s")) > constants.EVENTS_GRACE_SECONDS


@pytest.mark.contract("DPP-74")
def test_dpp_74_what_every_part_counts_is_on_one_page(services: dict[str, Any]) -> None:
    for name in PARTS:
        assert services[name]["environment"]["DPP_METRICS_DIR"] == "/metrics"
        assert services[name]["volumes"] == ["metrics:/metrics"]
    assert "-o dpp -g dpp /seed /metrics" in (REPOSITORY / "Dockerfile").read_text(encoding="utf-8")


def test_valkey_never_evicts_and_writes_everything_down(services: dict[str, Any]) -> None:
    command = " ".join(services["valkey"]["command"])
    assert "--maxmemory-policy noeviction" in command
    assert "--appendonly yes" in command


def test_the_parts_are_those_that_the_image_can_serve(services: dict[str, Any]) -> None:
    assert {services[name]["command"][0] for name in PARTS} == set(serve.PARTS) == PARTS


def test_the_image_is_pinned_hashed_and_not_root() -> None:
    lines = (REPOSITORY / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert re.fullmatch(r"FROM python:3\.12-slim-\w+", next(line for line in lines if line.startswith("FROM")))
    assert any("--require-hashes" in line for line in lines)
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users == ["dpp"]
    assert lines.index("USER dpp") < next(i for i, line in enumerate(lines) if line.startswith("ENTRYPOINT"))


def test_every_app_goes_into_the_image_and_no_secret_does() -> None:
    ignored = (REPOSITORY / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert ignored[0] == "*"
    apps = {path.parent.name for path in REPOSITORY.glob("*/apps.py")}
    assert apps
    assert {f"!{app}" for app in apps} <= set(ignored)
    assert "dpp_project/devstack" in ignored
    assert not [line for line in ignored if line.startswith("!") and "env" in line]


def test_docker_itself_accepts_it() -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("no docker with compose here")
    done = subprocess.run(
        [docker, "compose", "-f", str(COMPOSE), "config", "--quiet"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
