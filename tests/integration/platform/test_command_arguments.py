"""Every command of ours that takes --limit refuses one that no list has, in one line (DPP-76)."""

import io
from argparse import Action
from typing import Final

import pytest
from django.core.management import CommandError, call_command, get_commands, load_command_class

from dpp_project.management.base import OpsCommand

pytestmark = [pytest.mark.django_db, pytest.mark.contract("DPP-76")]


def options_of(name: str) -> dict[str, Action]:
    command = load_command_class(get_commands()[name], name)
    if not isinstance(command, OpsCommand):
        return {}
    return {action.dest: action for action in command.create_parser("manage.py", name)._actions}


OURS = [name for name, app in sorted(get_commands().items()) if "django" not in str(app)]
LIMITED = [name for name in OURS if "limit" in options_of(name)]

FIRST: Final = {"run_job": ["data_cleanup"], "automations": ["rules"]}
"""What a command asks for before it is asked anything; `list` where it has acts."""


def test_the_commands_with_a_limit_are_found() -> None:
    assert {"list_tenants", "dlq", "ticket", "events", "reap", "run_job"} <= set(LIMITED)


@pytest.mark.parametrize("limit", [0, -1, 10**30])
@pytest.mark.parametrize("name", LIMITED)
def test_dpp_76_a_limit_that_no_list_has_is_refused(name: str, limit: int) -> None:
    positional = FIRST.get(name, ["list"] if "do" in options_of(name) else [])
    with pytest.raises(CommandError, match=r"^--limit: must be 1 to \d+$") as refused:
        call_command(name, *positional, f"--limit={limit}", stdout=io.StringIO())
    assert refused.value.returncode == 1
