"""Every command that a page of docs/ names exists, takes what the page gives it, and runs (HRD-24)."""

import io
import re
import uuid
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command, get_commands, load_command_class

ROOT = Path(__file__).resolve().parents[3]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
COMMAND = re.compile(r"`(?:python )?manage\.py ([a-z_]+)([^`]*)`")
STANDS_FOR = {"ID": str(uuid.uuid4()), "N": "1", "NAME": "ada", "...": "why", "…": "why", "dpp_PREFIX": "dpp_AAAAAAAA"}
DONE, REFUSED, RUNNING = 0, 1, 75

pytestmark = [pytest.mark.contract("HRD-24"), pytest.mark.django_db(transaction=True)]


def named() -> list[tuple[str, str]]:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES).replace("\n", " ")
    found = {(name, " ".join(rest.split())) for name, rest in COMMAND.findall(text)}
    return sorted((name, rest) for name, rest in found if name != "mcp")  # manage.py hands over to it before Django


def test_the_pages_name_commands() -> None:
    assert {"migrate", "money_verify", "explain_run", "rotate_api_key"} <= {name for name, _ in named()}


@pytest.mark.parametrize(("name", "rest"), named(), ids=lambda part: part or "alone")
def test_a_command_of_the_docs_runs_as_it_is_written(name: str, rest: str, aws: str) -> None:
    assert aws
    assert name in get_commands(), f"no command is called {name}"
    arguments = [STANDS_FOR.get(word, word) for word in rest.split()]
    parser = load_command_class(get_commands()[name], name).create_parser("manage.py", name)
    try:
        parser.parse_args(arguments)
    except CommandError as error:
        assert "required" in str(error), f"`{name} {rest}` is wrong: {error}"  # named without its arguments
        return
    assert exit_code(name, arguments) in {DONE, REFUSED, RUNNING}


def exit_code(name: str, arguments: list[str]) -> int:
    try:
        call_command(name, *arguments, stdout=io.StringIO(), stderr=io.StringIO())
    except CommandError as error:
        return error.returncode
    except SystemExit as exited:
        return int(exited.code or 0)
    return DONE


def test_a_wrong_flag_on_a_page_would_be_found() -> None:
    parser = load_command_class("tenants", "rotate_api_key").create_parser("manage.py", "rotate_api_key")
    with pytest.raises(CommandError, match="unrecognized arguments: --grace-seconds"):
        parser.parse_args(["dpp_AAAAAAAA", "--grace-seconds", "5"])
