"""`.devstack/env` and what the programs are given."""

import subprocess
from pathlib import Path

import pytest

from dpp_project import env, env_file
from dpp_project.devstack import environment
from dpp_project.devstack.folder import Folder

TOLD_TO_PEOPLE = {
    *("DPP_API_URL", "DPP_API_KEY", "DPP_OPERATOR_KEY", "DATABASE_URL", "REDIS_URL"),
    *("SQS_ENDPOINT_URL", "S3_ENDPOINT_URL", "S3_PUBLIC_ENDPOINT_URL"),
    *("DPP_ADMIN_URL", "DPP_ADMIN_USER", "DPP_ADMIN_PASSWORD"),
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"),
    *("DPP_QUEUE_URL", "DPP_DLQ_URL", "DPP_EVENTS_QUEUE_URL", "DPP_EVENTS_DLQ_URL", "DPP_BUCKET"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path / "state")
    made.make()
    return made


def values(folder: Folder, environ: dict[str, str] | None = None) -> dict[str, str]:
    _, found = environment.devstack_services(folder, environ or {}, names=("api",))
    env_file.write_env_file(folder.env, found)
    return found


def test_what_is_written_is_read_back_by_us_and_by_a_shell(tmp_path: Path) -> None:
    path = tmp_path / "env"
    written = {"DATABASE_URL": "postgresql://dpp:a-b_c@127.0.0.1:1/dpp", "DPP_BUCKET": "dpp", "EMPTY": ""}
    env_file.write_env_file(path, written)
    assert env_file.read_env_file(path) == written
    shell = ["sh", "-c", f'set -a; . {path}; printf "%s|%s|%s" "$DATABASE_URL" "$DPP_BUCKET" "$EMPTY"']
    assert subprocess.check_output(shell, text=True) == "postgresql://dpp:a-b_c@127.0.0.1:1/dpp|dpp|"


def test_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "env"
    path.write_text("", encoding="utf-8")
    path.chmod(0o644)
    env_file.write_env_file(path, {"A": "b"})
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("value", ["a b", "a'b", 'a"b', "a$b", "a\nb", "a`b", "a;b", "a#b", "a\\b"])
def test_a_value_that_a_shell_would_change_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(ValueError, match="NAME has characters"):
        env_file.write_env_file(tmp_path / "env", {"NAME": value})
    assert not (tmp_path / "env").exists()


def test_everything_a_client_needs_is_told(folder: Folder) -> None:
    found = values(folder)
    assert set(found) >= TOLD_TO_PEOPLE
    assert {name for name in TOLD_TO_PEOPLE if not found[name]} == {"DPP_API_KEY", "DPP_OPERATOR_KEY"}


def test_secrets_and_addresses_are_the_same_at_the_next_start(folder: Folder) -> None:
    assert values(folder) == values(folder)


def test_another_devstack_has_other_secrets(tmp_path: Path) -> None:
    one, other = Folder(tmp_path / "one"), Folder(tmp_path / "other")
    one.make()
    other.make()
    first, second = values(one), values(other)
    for name in ("DPP_SECRET_KEY", "DPP_ADMIN_PASSWORD", "DATABASE_URL", "AWS_SECRET_ACCESS_KEY"):
        assert first[name] != second[name]


def test_the_platform_can_start_with_it_and_knows_each_name(folder: Folder) -> None:
    given = environment.for_programs({}, values(folder))
    env.read_environment(given)
    assert env.unknown_names(given) == []


def test_programs_are_not_given_what_is_told_to_people(folder: Folder) -> None:
    given = environment.for_programs({"DPP_API_KEY": "k", "PATH": "/bin"}, values(folder) | {"DPP_OPERATOR_KEY": "o"})
    assert not set(given) & {"DPP_API_KEY", "DPP_OPERATOR_KEY", "DPP_ADMIN_PASSWORD"}
    assert not [name for name in given if name.startswith("DEVSTACK_")]
    assert given["PATH"] == "/bin"


def test_a_service_named_outside_is_used_and_not_started(folder: Folder) -> None:
    outside = {"DATABASE_URL": "postgresql://u:p@db.example:5432/x", "REDIS_URL": "redis://cache.example:6379/0"}
    services, found = environment.devstack_services(folder, outside, names=("api",))
    assert services.postgres is None
    assert services.valkey is None
    assert services.aws is not None
    assert {name: found[name] for name in outside} == outside
    assert found["SQS_ENDPOINT_URL"] == services.aws.url


def test_our_own_addresses_read_from_a_shell_are_still_our_own(folder: Folder) -> None:
    told = values(folder)
    services, found = environment.devstack_services(folder, told, names=("api",))
    assert services.postgres is not None
    assert services.valkey is not None
    assert services.aws is not None
    assert found == told


def test_an_address_once_named_outside_stays_outside_while_it_is_named(folder: Folder) -> None:
    outside = {"REDIS_URL": "redis://cache.example:6379/0"}
    values(folder, outside)
    services, _ = environment.devstack_services(folder, outside, names=("api",))
    assert services.valkey is None


def test_an_address_no_longer_named_outside_is_ours_again(folder: Folder) -> None:
    values(folder, {"REDIS_URL": "redis://cache.example:6379/0"})
    services, found = environment.devstack_services(folder, {}, names=("api",))
    assert services.valkey is not None
    assert found["REDIS_URL"] == services.valkey.url


def test_credentials_of_a_real_account_reach_neither_our_services_nor_their_users(folder: Folder) -> None:
    real = {"AWS_ACCESS_KEY_ID": "AKIAREAL", "AWS_SECRET_ACCESS_KEY": "real", "AWS_SESSION_TOKEN": "real"}
    found = values(folder, real)
    given = environment.for_programs(real, found)
    assert "real" not in given.values()
    assert "AWS_SESSION_TOKEN" not in given


def test_credentials_are_kept_for_a_queue_named_outside(folder: Folder) -> None:
    outside = {
        "SQS_ENDPOINT_URL": "https://sqs.example",
        "S3_ENDPOINT_URL": "https://s3.example",
        "AWS_ACCESS_KEY_ID": "AKIAREAL",
        "AWS_SECRET_ACCESS_KEY": "real",
        "AWS_SESSION_TOKEN": "token",
        "DPP_QUEUE_URL": "https://sqs.example/1/runs",
        "DPP_DLQ_URL": "https://sqs.example/1/dead",
    }
    given = environment.for_programs(outside, values(folder, outside))
    assert {name: given[name] for name in outside} == outside


@pytest.mark.parametrize("before", ["", "intranet.example", "127.0.0.1,localhost"])
def test_loopback_is_never_reached_through_a_proxy(folder: Folder, before: str) -> None:
    environ = {"HTTP_PROXY": "http://proxy.example:3128"} | ({"NO_PROXY": before} if before else {})
    given = environment.for_programs(environ, values(folder))
    assert {"127.0.0.1", "localhost"} <= set(given["NO_PROXY"].split(","))
    assert set(before.split(",")) - {""} <= set(given["NO_PROXY"].split(","))


def test_a_chosen_api_port_is_used(folder: Folder) -> None:
    found = values(folder, {"DPP_API_PORT": "8123"})
    assert found["DPP_API_URL"] == "http://127.0.0.1:8123"


def test_workspaces_have_a_port_and_an_origin_below_localhost(folder: Folder) -> None:
    found = values(folder)
    port = found["DPP_WORKSPACES_PROXY_PORT"]
    assert port != found["DPP_API_PORT"]
    assert found["DPP_WORKSPACES_URL"] == f"http://localhost:{port}"
    assert values(folder)["DPP_WORKSPACES_PROXY_PORT"] == port, "it is kept"
    assert values(folder, {"DPP_WORKSPACES_PROXY_PORT": "8124"})["DPP_WORKSPACES_URL"] == "http://localhost:8124"
