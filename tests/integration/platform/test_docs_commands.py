"""Every command that a page of docs/ names exists, takes what the page gives it, and runs (HRD-24)."""

import io
import re
import shlex
import uuid
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command, get_commands, load_command_class

from dpp_project.jobs import registry

ROOT = Path(__file__).resolve().parents[3]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md")))
COMMAND = re.compile(r"`(?:python )?manage\.py ([a-z_]+)([^`]*)`")
"""In a line of words."""
BLOCK = re.compile(r"^ *```.*?^ *```|^    manage\.py .*?$", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"(?:^|[ ;])manage\.py ([a-z_]+)([^\n;|#]*)", re.MULTILINE)
"""In a block: up to the next command, or the words behind it."""
STANDS_FOR = {"N": "1", "NAME": "ada", "...": "why", "…": "why", "dpp_PREFIX": "dpp_AAAAAAAA"} | dict.fromkeys(
    ("ID", "RUN_ID"), str(uuid.uuid4())
)
DONE, REFUSED, RUNNING = 0, 1, 75

pytestmark = [pytest.mark.contract("HRD-24"), pytest.mark.django_db(transaction=True)]


def named(text: str) -> list[tuple[str, str]]:
    blocks = "\n".join(BLOCK.findall(text))
    found = {(name, " ".join(rest.split())) for name, rest in COMMAND.findall(text.replace("\n", " "))}
    found |= {(name, rest.strip()) for name, rest in SHOWN.findall(blocks)}
    return sorted((name, rest) for name, rest in found if name != "mcp")  # manage.py hands over to it before Django


NAMED = named("\n".join(page.read_text(encoding="utf-8") for page in PAGES))


def test_the_pages_name_commands() -> None:
    assert {"migrate", "money_verify", "explain_run", "rotate_api_key"} <= {name for name, _ in NAMED}


def test_commands_are_found_in_lines_and_in_blocks() -> None:
    page = (
        "Ask `manage.py\njobs`.\n```\nmanage.py dlq list; manage.py dlq show 1   # one\n"
        "python manage.py usage t_a | less\n```\n\n    manage.py ticket show ID\n\nwords manage.py does nothing"
    )
    assert named(page) == [
        ("dlq", "list"),
        ("dlq", "show 1"),
        ("jobs", ""),
        ("ticket", "show ID"),
        ("usage", "t_a"),
    ]


@pytest.mark.parametrize(("name", "rest"), NAMED, ids=lambda part: part or "alone")
def test_a_command_of_the_docs_runs_as_it_is_written(
    name: str, rest: str, aws: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert aws
    assert name in get_commands(), f"no command is called {name}"
    monkeypatch.setattr("sys.stdin", io.StringIO("a word\n" * 4))  # some ask for a token, or for a password
    arguments = [STANDS_FOR.get(word, word) for word in shlex.split(rest)]
    if name == "run_job" and arguments:  # an unknown one is refused, as is one whose work is not there
        assert arguments[0] in registry.declared_jobs()
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
