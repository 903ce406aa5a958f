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
PARTS = {"api", "worker", "beat", "events", "workspaces"}


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
        env.read_environment(given)
        assert set(given) <= set(env.Environment.model_fields), name


def _default(value: str, **given: str) -> str:
    """As compose reads it, of what stands in this file."""

    def said(found: re.Match[str]) -> str:
        name, how, word = found.groups()
        return (word if given.get(name) else "") if how == "+" else given.get(name) or word

    return re.sub(r"\$\{(\w+):([-+])([^}]*)\}", said, value)


def test_workspaces_are_sold_where_their_profile_is_on(services: dict[str, Any]) -> None:
    for on, driver in (("workspaces", "docker"), ("", None)):
        sold = {}
        for name in ("api", "worker", "workspaces"):
            asked = services[name]["environment"].items()
            sold[name] = env.read_environment({key: _default(str(value), COMPOSE_PROFILES=on) for key, value in asked})
        assert {name: one.DPP_WORKSPACES_DRIVER for name, one in sold.items()} == {
            "api": driver,
            "worker": None,
            "workspaces": "docker",
        }
        assert sold["api"].DPP_WORKSPACES_IMAGES == sold["workspaces"].DPP_WORKSPACES_IMAGES
    assert services["workspaces"]["profiles"] == ["workspaces"]
    # API and workers reach it by what it binds to: its own name resolves to its address in their network.
    assert services["workspaces"]["environment"]["DPP_WORKSPACES_HOST"] == "workspaces"


def test_what_the_daemon_mounts_into_workspaces_has_one_path_inside_and_outside(services: dict[str, Any]) -> None:
    one = services["workspaces"]
    folder = one["environment"]["DPP_WORKSPACES_DIR"]
    assert _default(folder).startswith("/")
    assert f"{folder}:{folder}" in one["volumes"]
    assert "/var/lib/docker/volumes:/var/lib/docker/volumes:ro" in one["volumes"], "where its free space is asked for"
    assert (one["user"], one["cap_drop"], one["cap_add"]) == ("root", ["ALL"], ["DAC_OVERRIDE"])


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


def test_dpp_78_loops_are_given_longer_than_their_own_grace(services: dict[str, Any]) -> None:
    for name in ("events", "workspaces"):
        assert int(services[name]["stop_grace_period"].removesuffix("s")) > constants.EVENTS_GRACE_SECONDS


def test_the_daemons_socket_is_given_to_workspaces_alone_and_only_where_asked_for(services: dict[str, Any]) -> None:
    given = {name for name, one in services.items() if any("docker.sock" in path for path in one.get("volumes", []))}
    assert given == {"workspaces"}
    assert {name for name, one in services.items() if "profiles" in one} == given


@pytest.mark.contract("DPP-74")
def test_dpp_74_what_every_part_counts_is_on_one_page(services: dict[str, Any]) -> None:
    for name in PARTS:
        assert services[name]["environment"]["DPP_METRICS_DIR"] == "/metrics"
        assert services[name]["volumes"][0] == "metrics:/metrics"
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
