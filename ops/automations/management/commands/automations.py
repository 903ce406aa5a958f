"""manage.py automations rules"""

import json
import uuid
from pathlib import Path
from typing import Any, Final

from django.core.management.base import CommandParser
from pydantic import ValidationError

from dpp_project import actors
from dpp_project.management.base import CommandAnswer, CommandRefused, OpsCommand, unless_refused, within_limit
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal, invalid
from ops.automations import emitting, rehearsing, selectors
from ops.automations.api import documents
from ops.automations.management import source_acts
from ops.automations.models import AutomationRule, AutomationSource
from ops.automations.rules import rules
from ops.automations.rules.rule_values import RuleChange, RuleValues
from ops.automations.states import EventStatus, MessageStatus, TaskStatus
from tenants import services
from tenants.services import text_fault

LISTED: Final = 50
LISTED_MAX: Final = 1_000
ACTS: Final = (
    *("rules", "events", "tasks", "messages", "show", "try", "add", "change", "enable", "disable", "end"),
    *("again", "forget", "tenant"),
)
FILE_BYTES_MAX: Final = 1_048_576


class Command(OpsCommand):
    help = (
        "Automations: list rules, events, tasks or messages; show a task by its number or a rule by its name; "
        "try the rules of a source with an event; add, change, enable, disable or end a rule; emit a failed event "
        "again, or forget it once it was cleared; let a tenant's automations buy; docs/automations.md has the whole. "
        + source_acts.HELP
    )
    changes = True

    def declare(self, parser: CommandParser) -> None:
        parser.add_argument("what", choices=("source", *ACTS))
        parser.add_argument("do", nargs="?", default="", help="a rule's name, a task's number, an event's id; an act")
        parser.add_argument("--file", type=Path, help="add, change: the rule as JSON; try: the event")
        parser.add_argument("--source", default="", help="try, forget: the source's name")
        parser.add_argument("--status", default="", help="events, tasks, messages: only such")
        parser.add_argument(
            "--limit", type=int, default=LISTED, help=f"events, tasks, messages: at most so many (default {LISTED})"
        )
        parser.add_argument("--off", action="store_true", help="tenant: its events wait from now on")
        parser.add_argument("--by", default="", help="your name; what changes something asks for it")
        parser.add_argument("--reason", default="", help="again, forget: why")
        source_acts.add_source_arguments(parser)

    def run(self, *, dry_run: bool, **options: Any) -> CommandAnswer:
        within_limit(options["limit"], LISTED_MAX)
        if options["what"] == "source":
            return source_acts.run_source_act(options, dry_run=dry_run)
        do, options["subject"] = options["what"], options["do"]
        options["do"] = do
        if do in LOOKS:
            return LOOKS[do](options)
        act = {
            "add": _add,
            "tenant": _tenant,
            "again": _emit_again_or_forget_event,
            "forget": _emit_again_or_forget_event,
        }.get(do, _rule_act)
        return act(options, by=_claimed_automation_actor(options), dry_run=dry_run)


def _automation_rules_answer(options: dict[str, Any]) -> CommandAnswer:
    del options
    found = [documents.AutomationRuleAnswer.of(rule) for rule in selectors.list_automation_rules()]
    lines = [
        f"{one.position:5}  {one.name:32}  {'on ' if one.enabled else 'off'}  {one.source:16}  {one.tenant}  "
        f"{one.pack_type}  {one.max_cost_usd} USD  {one.runs_per_hour}/h  {one.usd_per_day} USD/d"
        for one in found
    ]
    return _automation_list_answer("rules", found, lines)


def _automation_events_answer(options: dict[str, Any]) -> CommandAnswer:
    rows = selectors.list_automation_events(status=_automation_status_by_option(options, EventStatus))[
        : options["limit"]
    ]
    found = [documents.AutomationEventAnswer.of(event) for event in rows]
    lines = [
        f"{one.event}  {one.seen_at:%Y-%m-%d %H:%M:%S}  {one.status:10}  {one.outcome or one.waits_for or '-':12}  "
        f"{one.source}  {one.event_id[:40]}  {one.reason[:80]}"
        for one in found
    ]
    return _automation_list_answer("events", found, lines)


def _tasks(options: dict[str, Any]) -> CommandAnswer:
    rows = selectors.list_automation_tasks(status=_automation_status_by_option(options, TaskStatus))[: options["limit"]]
    found = [documents.AutomationTaskAnswer.of(task) for task in rows]
    lines = [
        f"{one.number:20}  {one.status:11}  {one.outcome or one.waits_for or '-':12}  {one.rule}  "
        f"{one.attempts}/{one.attempts_max}  {one.charged_usd} USD  {one.reason[:80]}"
        for one in found
    ]
    return _automation_list_answer("tasks", found, lines)


def _messages(options: dict[str, Any]) -> CommandAnswer:
    rows = selectors.list_automation_messages(status=_automation_status_by_option(options, MessageStatus))[
        : options["limit"]
    ]
    found = [documents.AutomationMessageAnswer.of(message) for message in rows]
    lines = [
        f"{one.number:20}  {one.status:8}  {one.kind:8}  {one.channel} {one.target}  {one.last_error[:80]}"
        for one in found
    ]
    return _automation_list_answer("messages", found, lines)


def _show(options: dict[str, Any]) -> CommandAnswer:
    subject = options["subject"]
    if not subject:
        raise CommandRefused(invalid("subject", "give a rule's name or a task's number; `rules` and `tasks` list them"))
    rule = AutomationRule.objects.select_related("source").filter(name=subject, ended_at__isnull=True).first()
    if rule is not None:
        return _automation_document_answer(documents.AutomationRuleAnswer.of(rule))
    task = selectors.task_of(subject)
    if task is None:
        raise CommandRefused(Refusal(ReasonCode.NOT_FOUND, "there is no such rule or task", "subject"))
    return _automation_document_answer(documents.AutomationTaskAnswer.whole(task))


def _try(options: dict[str, Any]) -> CommandAnswer:
    source = AutomationSource.objects.filter(name=options["source"]).first()
    if source is None:
        raise CommandRefused(invalid("--source", "give the name of a source; `manage.py automations source list`"))
    found = [documents.RuleTrialAnswer.of(one) for one in rehearsing.try_event(source=source, payload=_file(options))]
    lines = [
        f"{'->' if one.is_chosen else '  '} {one.rule:32}  matches: {one.filter_said}  "
        f"{'' if one.least_usd is None else f'{one.least_usd} to {one.most_usd} USD'}  {'; '.join(one.faults)}"
        for one in found
    ]
    return _automation_list_answer("rules", found, lines)


LOOKS: Final = {
    "rules": _automation_rules_answer,
    "events": _automation_events_answer,
    "tasks": _tasks,
    "messages": _messages,
    "show": _show,
    "try": _try,
}


def _add(options: dict[str, Any], *, by: str, dry_run: bool) -> CommandAnswer:
    asked = _validated_rule_document(RuleValues, _file(options))
    if dry_run:
        fault = rules.fault_of_automation_rule(asked)
        if fault is not None:
            raise CommandRefused(fault)
        return CommandAnswer({"name": asked.name}, [f"the rule {asked.name} would be made"])
    return _automation_document_answer(
        documents.AutomationRuleAnswer.of(unless_refused(rules.create_rule(asked=asked, actor=by)))
    )


def _rule_act(options: dict[str, Any], *, by: str, dry_run: bool) -> CommandAnswer:
    rule = AutomationRule.objects.filter(name=options["subject"], ended_at__isnull=True).first()
    if rule is None:
        raise CommandRefused(Refusal(ReasonCode.NOT_FOUND, "there is no such rule", "subject"))
    do = options["do"]
    change = _validated_rule_document(RuleChange, _file(options)) if do == "change" else None
    if dry_run:
        return CommandAnswer({"name": rule.name}, [f"the rule {rule.name}: {do}"])
    if change is not None:
        answer = rules.change_rule(rule_id=rule.pk, asked=change, actor=by)
    elif do == "end":
        answer = rules.end_automation_rule(rule_id=rule.pk, actor=by)
    else:
        answer = rules.enable_rule(rule_id=rule.pk, enabled=do == "enable", actor=by)
    return _automation_document_answer(documents.AutomationRuleAnswer.of(unless_refused(answer)))


def _emit_again_or_forget_event(options: dict[str, Any], *, by: str, dry_run: bool) -> CommandAnswer:
    subject = options["subject"]
    if options["do"] == "forget":
        source = AutomationSource.objects.filter(name=options["source"]).first()
        if source is None:
            raise CommandRefused(invalid("--source", "give the name of a source; `manage.py automations source list`"))
        if not dry_run:
            refused = emitting.forget_failed(source=source, event_id=subject, actor=by, reason=options["reason"])
            if refused is not None:
                raise CommandRefused(refused)
        return CommandAnswer({"event_id": subject}, [f"{subject} may come again from {source.name}"])
    try:
        event_pk = uuid.UUID(subject)
    except ValueError:
        raise CommandRefused(invalid("subject", "give an event's id; `manage.py automations events`")) from None
    if dry_run:
        return CommandAnswer({"event": subject}, [f"{subject} would be emitted again"])
    again = unless_refused(emitting.emit_again(event_pk=event_pk, actor=by, reason=options["reason"]))
    (found,) = selectors.list_automation_events(pk=again.pk)
    return _automation_document_answer(documents.AutomationEventAnswer.of(found))


def _tenant(options: dict[str, Any], *, by: str, dry_run: bool) -> CommandAnswer:
    tenant_id, enabled = options["subject"], not options["off"]
    if not dry_run:
        unless_refused(services.enable_automations(tenant_id=tenant_id, enabled=enabled, actor=by))
    said = "may buy" if enabled else "wait"
    return CommandAnswer({"tenant": tenant_id, "enabled": enabled}, [f"automations of {tenant_id} {said}"])


def _file(options: dict[str, Any]) -> dict[str, Any]:
    path: Path | None = options["file"]
    if path is None:
        raise CommandRefused(invalid("--file", "give a file with a JSON object"))
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise CommandRefused(invalid("--file", f"is larger than {FILE_BYTES_MAX} bytes"))
        read = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise CommandRefused(invalid("--file", f"is no JSON; {where}: {error.msg}")) from None
    except OSError as error:
        raise CommandRefused(invalid("--file", f"cannot be read: {error.strerror}")) from None
    except ValueError:
        raise CommandRefused(invalid("--file", "is not UTF-8")) from None
    if not isinstance(read, dict):
        raise CommandRefused(invalid("--file", "must hold a JSON object"))
    return read


def _validated_rule_document(model: Any, said: dict[str, Any]) -> Any:
    try:
        return model.model_validate(said)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise CommandRefused(invalid(place or "--file", first["msg"].removeprefix("Value error, "))) from None


def _automation_status_by_option(options: dict[str, Any], known: Any) -> Any:
    if not options["status"]:
        return None
    try:
        return known(options["status"])
    except ValueError:
        raise CommandRefused(invalid("--status", f"must be one of {', '.join(known)}")) from None


def _claimed_automation_actor(options: dict[str, Any]) -> str:
    fault = text_fault("--by", options["by"])
    if fault is not None:
        raise CommandRefused(invalid("--by", f"say who you are: {fault.detail}"))
    return actors.claimed_actor(options["by"])


def _automation_list_answer(name: str, found: list[Any], lines: list[str]) -> CommandAnswer:
    return CommandAnswer({name: [one.model_dump(mode="json") for one in found]}, lines or [f"There are no {name}."])


def _automation_document_answer(document: Any) -> CommandAnswer:
    said: dict[str, Any] = document.model_dump(mode="json")
    lines = [
        f"{name}: {json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value}"
        for name, value in said.items()
    ]
    return CommandAnswer(said, lines)
