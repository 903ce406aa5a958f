"""manage.py submits stop --all --reason "wrong prices" """

from typing import Any

from django.core.management.base import CommandParser

from dpp_project import actors
from dpp_project.management.base import CommandAnswer, CommandRefused, OpsCommand, changes_undone_if, unless_refused
from dpp_project.refusals import invalid
from tenants import services
from tenants.models import Tenant


class Command(OpsCommand):
    help = (
        "Refuse new runs (EXECUTION_DISABLED) of one tenant or of all, and take them again; within 5 s everywhere. "
        "Runs under way go on, everything can be read, and a retry of an accepted submit gets its receipt."
    )
    changes = True

    def declare(self, parser: CommandParser) -> None:
        parser.add_argument("do", choices=("stop", "resume", "status"))
        whose = parser.add_mutually_exclusive_group(required=True)
        whose.add_argument("--tenant", help="of this one")
        whose.add_argument("--all", action="store_true", help="of every one, those made meanwhile as well")
        parser.add_argument("--reason", default="", help="stop and resume: why, kept in the audit trail")

    def run(self, *, dry_run: bool, **options: Any) -> CommandAnswer:
        tenant_id, do = options["tenant"], options["do"]
        if do != "status":
            stopped, reason = do == "stop", options["reason"]
            if (fault := services.text_fault("--reason", reason)) is not None:
                raise CommandRefused(fault)
            with changes_undone_if(dry_run):
                if tenant_id is None:
                    answer = services.stop_all_submits(stopped=stopped, actor=actors.COMMAND, reason=reason)
                else:
                    answer = services.enable_submits(
                        tenant_id=tenant_id, enabled=not stopped, actor=actors.COMMAND, reason=reason
                    )
                unless_refused(answer)
                return _submits_status_answer(tenant_id)
        return _submits_status_answer(tenant_id)


def _submits_status_answer(tenant_id: str | None) -> CommandAnswer:
    all_stopped = services.all_submits_are_stopped()
    if tenant_id is None:
        off = list(Tenant.objects.filter(submits_enabled=False).exclude(pk="t_operator").values_list("pk", flat=True))
        said = "stopped for all" if all_stopped else "taken" + (f", except of {', '.join(off)}" if off else "")
        return CommandAnswer({"all_stopped": all_stopped, "stopped_alone": off}, [f"submits are {said}"])
    tenant = Tenant.objects.filter(tenant_id=tenant_id).first()
    if tenant is None:
        raise CommandRefused(invalid("--tenant", f"there is no tenant {tenant_id}"))
    taken = tenant.submits_enabled and not all_stopped
    document = {"tenant_id": tenant_id, "submits_enabled": tenant.submits_enabled, "all_stopped": all_stopped}
    return CommandAnswer(document, [f"submits of {tenant_id} are {'taken' if taken else 'stopped'}"])
