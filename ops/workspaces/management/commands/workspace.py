"""manage.py workspace list, workspace show ID, workspace logs ID, workspace recover ID --from recheck"""

import asyncio
from typing import Any, Final

from django.core.management.base import CommandParser

from dpp_project import actors, clock
from dpp_project.management.base import (
    CommandAnswer,
    CommandRefused,
    OpsCommand,
    changes_undone_if,
    unless_refused,
    within_limit,
)
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal, invalid
from ops.workspaces import explaining, selectors, services, using
from ops.workspaces.drivers.base import DriverRefused, DriverUnavailable
from ops.workspaces.models import Workspace, WorkspaceArchive, WorkspaceDriver, WorkspaceEvent
from ops.workspaces.remote import client
from ops.workspaces.selectors import WantedWorkspaces
from ops.workspaces.states import DesiredState, Phase

LISTED: Final = 50
LISTED_MAX: Final = 1_000
STATES: Final = {
    "start": DesiredState.RUNNING,
    "standby": DesiredState.STANDBY,
    "archive": DesiredState.ARCHIVED,
}
LOG_BYTES: Final = 65_536
LOG_BYTES_MAX: Final = 262_144
ACTS: Final = ("list", "show", "logs", *STATES, "delete", "undelete", "recover", "drivers", "release")


class Command(OpsCommand):
    help = (
        "Workspaces of tenants: list them, show one with its timeline, read what its command "
        "wrote, ask for another state, delete, undelete or "
        "recover one; list the drivers that hold them, and release one that was frozen. docs/workspaces_operating.md."
    )
    changes = True

    def declare(self, parser: CommandParser) -> None:
        parser.add_argument("do", choices=ACTS)
        parser.add_argument("subject", nargs="?", default="", help="the workspace's id; release: the driver's")
        parser.add_argument("--tenant", help="list: only workspaces of this one")
        parser.add_argument("--phase", choices=[one.value for one in Phase], help="list: only such")
        parser.add_argument("--deleted", action="store_true", help="list: also those whose deletion was asked for")
        parser.add_argument("--discard", action="store_true", help="delete: give up what is not archived, out of ERROR")
        parser.add_argument("--from", dest="source", default="", help="recover: recheck, empty, or archive:KEY")
        parser.add_argument("--offset", type=int, default=0, help="logs: where to go on; 0: what is kept")
        parser.add_argument("--bytes", type=int, default=LOG_BYTES, help=f"logs: at most so many ({LOG_BYTES})")
        parser.add_argument("--limit", type=int, default=LISTED, help=f"list and show: at most so many ({LISTED})")

    def run(self, *, dry_run: bool, **options: Any) -> CommandAnswer:
        match options["do"]:
            case "list":
                return _workspace_list_answer(options)
            case "drivers":
                return _drivers()
            case "show":
                return _whole_workspace_answer(
                    _workspace_of_subject(options["subject"]), limit=within_limit(options["limit"], LISTED_MAX)
                )
            case "logs":
                return _logs(
                    _workspace_of_subject(options["subject"]), offset=options["offset"], bytes_max=options["bytes"]
                )
            case "release":
                with changes_undone_if(dry_run):
                    driver = services.release_driver(driver_id=options["subject"], actor=actors.COMMAND)
                    return _driver_answer(unless_refused(driver))
        with changes_undone_if(dry_run):
            changed = unless_refused(_acted(options["do"], _workspace_of_subject(options["subject"]), options))
            return CommandAnswer(_workspace_document(changed), [_workspace_line(changed)], [_explained(changed).said])


def _acted(do: str, workspace: Workspace, options: dict[str, Any]) -> Workspace | Refusal:
    ids: dict[str, Any] = {"workspace_id": workspace.pk, "actor": actors.COMMAND}
    match do:
        case "delete":
            return services.delete_workspace(**ids, discard=options["discard"])
        case "undelete":
            return services.undelete_workspace(**ids)
        case "recover":
            answer = services.recover_workspace(**ids, source=options["source"])
            return _workspace_refusal_by_option(answer, "--from") if isinstance(answer, Refusal) else answer
    return services.change_workspace(**ids, wanted={"desired_state": STATES[do].value})


def _workspace_refusal_by_option(refusal: Refusal, argument: str) -> Refusal:
    return Refusal(refusal.reason, refusal.detail, argument if refusal.field == "from" else refusal.field)


def _workspace_list_answer(options: dict[str, Any]) -> CommandAnswer:
    phase = None if options["phase"] is None else Phase(options["phase"])
    wanted = WantedWorkspaces(tenant_id=options["tenant"], phase=phase, deleted=options["deleted"])
    found = selectors.list_workspaces(wanted, limit=within_limit(options["limit"], LISTED_MAX)).workspaces
    lines = [_workspace_line(one) for one in found] or ["There are no such workspaces."]
    return CommandAnswer({"workspaces": [_workspace_document(one) for one in found]}, lines)


def _whole_workspace_answer(workspace: Workspace, *, limit: int) -> CommandAnswer:
    archives = selectors.archives_of(workspace, limit=limit)
    events = selectors.events_of(workspace, below=None, limit=limit).events
    document = _workspace_document(workspace)
    lines = [f"{name}: {value}" for name, value in document.items() if name != "conditions"]
    lines += [
        f"{name}: {condition.get('status')} {condition.get('reason', '')} {condition.get('message', '')}".rstrip()
        for name, condition in sorted(workspace.conditions.items())
    ]
    lines += [f"archive {one.pk}  {one.state}  {one.object_bytes or 0} bytes" for one in archives]
    lines += [f"{one.at:%Y-%m-%d %H:%M:%S}  {one.kind}  {one.actor}  {one.detail}" for one in events]
    document |= {
        "archives": [_archive(one) for one in archives],
        "events": [_workspace_event_document(one) for one in events],
    }
    return CommandAnswer(document, lines)


def _logs(workspace: Workspace, *, offset: int, bytes_max: int) -> CommandAnswer:
    """As its process `workspaces` reads it. To read it is no use of the workspace."""
    if offset < 0:
        raise CommandRefused(invalid("--offset", "must be 0 or more"))
    if not 1 <= bytes_max <= LOG_BYTES_MAX:
        raise CommandRefused(invalid("--bytes", f"must be 1 to {LOG_BYTES_MAX}"))
    address = using.address_of(workspace)
    if address is None:
        raise CommandRefused(Refusal(ReasonCode.SERVICE_UNAVAILABLE, "its host has not come up", "subject"))
    try:
        page = asyncio.run(client.read_logs(address, str(workspace.pk), offset=offset, bytes_max=bytes_max))
    except DriverRefused as refused:
        raise CommandRefused(Refusal(ReasonCode.CONFLICT, str(refused), "subject")) from None
    except DriverUnavailable as away:
        raise CommandRefused(Refusal(ReasonCode.SERVICE_UNAVAILABLE, str(away), "subject")) from None
    content = page.content.decode("utf-8", "replace")
    document = {"content": content, "next_offset": page.next_offset, "dropped": page.dropped}
    remarks = ["What stood before is no longer kept."] if page.dropped else []
    return CommandAnswer(document, content.splitlines(), [*remarks, f"It goes on at --offset {page.next_offset}."])


def _drivers() -> CommandAnswer:
    found = selectors.list_drivers()
    lines = [_driver_line(one) for one in found] or ["There are no drivers yet."]
    return CommandAnswer({"drivers": [_driver(one) for one in found]}, lines)


def _driver_answer(driver: WorkspaceDriver) -> CommandAnswer:
    return CommandAnswer(_driver(driver), [_driver_line(driver)])


def _workspace_of_subject(subject: str) -> Workspace:
    found = services.find_workspace(subject)
    if isinstance(found, Refusal):
        raise CommandRefused(Refusal(found.reason, f"{found.detail}; see workspace list", "subject"))
    return found


def _explained(workspace: Workspace) -> explaining.NextStep:
    driver = WorkspaceDriver.objects.filter(pk=workspace.driver_id).first()
    return explaining.explain_workspace(workspace, driver, now=clock.now())


def _workspace_line(workspace: Workspace) -> str:
    way = (
        workspace.phase
        if workspace.phase == workspace.desired_state
        else f"{workspace.phase}→{workspace.desired_state}"
    )
    doing = "" if workspace.operation == "NONE" else f"  {workspace.operation} {workspace.op_step}"
    reason = services.error_reason(workspace)
    return f"{workspace.pk}  {workspace.tenant_id}  {workspace.name}  {way}{doing}  {reason}".rstrip()


def _workspace_document(workspace: Workspace) -> dict[str, Any]:
    """Of its environment the names alone: the values are the tenant's own."""
    names = (
        *("tenant_id", "name", "desired_state", "phase", "generation", "standby_ttl_seconds", "archive_ttl_seconds"),
        *("driver_id", "operation", "op_step", "op_attempt", "op_progress_bytes", "rev", "observed_rev", "archive_key"),
        *("error_count", "error_info", "conditions"),
    )
    moments = ("created_at", "observed_at", "op_started_at", "next_reconcile_at", "delete_requested_at", "deleted_at")
    step = _explained(workspace)
    return {
        "workspace_id": str(workspace.pk),
        **{name: getattr(workspace, name) for name in names},
        **{name: (at := getattr(workspace, name)) and at.isoformat() for name in moments},
        "env": sorted(workspace.spec.get("env") or {}),
        "next": {"said": step.said, "actor": step.next_actor.value, "at": step.at and step.at.isoformat()},
    }


def _archive(archive: WorkspaceArchive) -> dict[str, Any]:
    names = ("archive_key", "state", "epoch", "object_bytes", "tar_bytes", "members", "sha256")
    return {name: getattr(archive, name) for name in names} | {"created_at": archive.created_at.isoformat()}


def _workspace_event_document(event: WorkspaceEvent) -> dict[str, Any]:
    return {"at": event.at.isoformat(), "kind": event.kind, "actor": event.actor, "detail": event.detail}


def _driver(driver: WorkspaceDriver) -> dict[str, Any]:
    return {
        "driver_id": driver.driver_id,
        "kind": driver.kind,
        "listed_at": driver.listed_at and driver.listed_at.isoformat(),
        "frozen_at": driver.frozen_at and driver.frozen_at.isoformat(),
        "frozen_reason": driver.frozen_reason,
    }


def _driver_line(driver: WorkspaceDriver) -> str:
    seen = "never looked at" if driver.listed_at is None else f"looked at {driver.listed_at:%Y-%m-%d %H:%M:%S}"
    frozen = (
        ""
        if driver.frozen_at is None
        else f"  FROZEN since {driver.frozen_at:%Y-%m-%d %H:%M:%S}: {driver.frozen_reason}"
    )
    return f"{driver.driver_id}  {driver.kind}  {seen}{frozen}"
