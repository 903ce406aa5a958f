"""The part of `manage.py automations` that is about sources: `automations source make github --kind GITHUB`."""

import getpass
import json
import sys
from typing import Any, Final

from django.core.management.base import CommandParser

from dpp_project import actors
from dpp_project.management.base import CommandAnswer, CommandRefused, changes_undone_if, unless_refused
from dpp_project.refusals import invalid
from ops.automations.api.source_documents import SourceAnswer
from ops.automations.models import AutomationSource
from ops.automations.sources import acts, encrypting, failures
from ops.automations.sources.acts import Changed
from ops.automations.states import SourceKind

ACTS: Final = ("list", "show", "make", "change", "token", "rotate", "pause", "resume", "look", "reencrypt")
SHOWN_ONCE: Final = "This is the only time it is shown: enter it at the other end now."


HELP: Final = (
    "source list, show, make, change, token, rotate, pause, resume, look, reencrypt: a token or a secret of yours is "
    "asked for, or read from standard input; never given as an argument, where others of this machine could read it. "
    "docs/automations_sources.md has the settings."
)


def add_source_arguments(parser: CommandParser) -> None:
    parser.add_argument("name", nargs="?", default="", help="source: its name")
    parser.add_argument("--kind", choices=[kind.value for kind in SourceKind], help="source make: what it is")
    parser.add_argument("--config", default="{}", help="source make, change: its settings, as JSON")
    parser.add_argument("--token", action="store_true", help="source make: ask for a token")
    parser.add_argument("--secret", action="store_true", help="source make, rotate: ask for a signing secret")


def run_source_act(options: dict[str, Any], *, dry_run: bool) -> CommandAnswer:
    if options["do"] not in ACTS:
        raise CommandRefused(invalid("do", f"give one of {', '.join(ACTS)}"))
    if options["do"] == "list":
        return _automation_sources_answer()
    with changes_undone_if(dry_run):
        return _answer_of_source_act(options, dry_run=dry_run)


def _answer_of_source_act(options: dict[str, Any], *, dry_run: bool) -> CommandAnswer:
    name, actor = options["name"], actors.COMMAND
    if options["do"] == "reencrypt":
        done = unless_refused(encrypting.reencrypt_sources(actor=actor))
        lost = [f"no key opens the secrets of {one}" for one in done.unreadable]
        document = {"changed": done.changed, "unreadable": done.unreadable}
        said = f"{done.changed} sources' secrets were encrypted anew"
        return CommandAnswer(document, [said], lost, exit_code=1 if lost else 0)
    if options["do"] == "make":
        if options["kind"] is None:
            raise CommandRefused(invalid("--kind", f"give one of {', '.join(SourceKind)}"))
        answer = acts.create_source(
            name=name,
            kind=SourceKind(options["kind"]),
            settings=_settings(options),
            token=_prompted_source_secret("token") if options["token"] else "",
            signing_secret=_prompted_source_secret("signing secret") if options["secret"] else "",
            actor=actor,
        )
        return _changed_source_answer(unless_refused(answer), dry_run=dry_run)
    source = unless_refused(acts.find_source(name))
    match options["do"]:
        case "show":
            return CommandAnswer(document_of(source), [f"{key}: {value}" for key, value in document_of(source).items()])
        case "change":
            changed = unless_refused(acts.change_source(source=source, settings=_settings(options), actor=actor))
        case "token":
            changed = unless_refused(
                acts.rotate_source_secret(source=source, token=_prompted_source_secret("token"), actor=actor)
            )
        case "rotate":
            secret = _prompted_source_secret("signing secret") if options["secret"] else ""
            changed = unless_refused(acts.rotate_source_secret(source=source, signing_secret=secret, actor=actor))
        case "pause":
            changed = acts.pause_source(source=source, actor=actor)
        case "resume":
            changed = acts.resume_source(source=source, actor=actor)
        case _:
            changed = unless_refused(acts.look_now(source=source, actor=actor))
    return _changed_source_answer(changed, dry_run=dry_run)


def _prompted_source_secret(what: str) -> str:
    """Without an echo at a terminal; else a line of standard input."""
    said = getpass.getpass(f"{what}: ") if sys.stdin.isatty() else sys.stdin.readline()
    if not said.strip():
        raise CommandRefused(invalid(what.replace(" ", "_"), "is empty; write it to standard input"))
    return said.strip()


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    try:
        said = json.loads(options["config"])
    except ValueError:
        raise CommandRefused(invalid("--config", "must be JSON")) from None
    if not isinstance(said, dict):
        raise CommandRefused(invalid("--config", "must be an object"))
    return said


def _automation_sources_answer() -> CommandAnswer:
    found = list(AutomationSource.objects.all())
    return CommandAnswer(
        {"sources": [document_of(one) for one in found]},
        [_automation_source_line(one) for one in found] or ["There are no sources."],
    )


def _changed_source_answer(changed: Changed, *, dry_run: bool) -> CommandAnswer:
    secret = "" if dry_run else changed.secret
    lines = [_automation_source_line(changed.source), *([secret] if secret else [])]
    document = document_of(changed.source) | ({"secret": secret} if secret else {})
    return CommandAnswer(document, lines, [SHOWN_ONCE] if secret else [])


def _automation_source_line(source: AutomationSource) -> str:
    state = "PAUSED" if not source.enabled else "FAILING" if source.failures else "WELL"
    return f"{source.name}  {source.kind}  {state}  {failures.source_failure_told(source)}".rstrip()


def document_of(source: AutomationSource) -> dict[str, Any]:
    """Never its secrets: whether it has some, no more."""
    return SourceAnswer.of(source).model_dump(mode="json")
