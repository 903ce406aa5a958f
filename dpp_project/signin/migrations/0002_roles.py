"""Three roles, as groups of Django's: viewer, operator and finance. People are put into them; a superuser may do all.

A viewer reads. An operator also ends runs, decides disputes, mends what is stuck and manages tenants and keys. Finance
reads, and enters money. None of them manages operators' accounts. Undone, the groups stay: people may be in them.
"""


from typing import Any, Final

from django.db import migrations

READ: Final = (
    *("jobs.jobreport", "heartbeats.processheartbeat", "outbox.outboxmessage", "outbox.eventdeadletter"),
    *("tenants.tenant", "tenants.apikey", "webhooks.webhookendpoint", "webhooks.webhookdelivery"),
    *("budget.account", "budget.ledgerentry", "budget.pendingcredit", "runs.run", "reaper.deadletter"),
    *("tickets.ticket", "tickets.emergencyswitch", "tickets.opsrunreceipt", "tickets.reaperreport"),
    *("auth_errors.cluster", "auth_errors.autherror", "auth_errors.decisionrule"),
    *("workspaces.workspace", "workspaces.workspacedriver"),
    *("lifecycle.alarm", "lifecycle.cleanupstep", "lifecycle.datacleanup"),
    *("automations.automationrule", "automations.automationevent", "automations.automationtask"),
    *("automations.automationmessage", "automations.automationsource"),
)
VIEWER: Final = tuple(f"{one.partition('.')[0]}.view_{one.partition('.')[2]}" for one in READ)
OPERATOR: Final = (
    *VIEWER,
    "audit.view_auditentry",
    *("runs.change_run", "reaper.change_deadletter", "outbox.change_eventdeadletter"),
    *("tenants.add_tenant", "tenants.change_tenant", "tenants.add_apikey", "tenants.change_apikey"),
    *("webhooks.change_webhookendpoint", "webhooks.change_webhookdelivery"),
    *("tickets.add_ticket", "tickets.change_ticket", "tickets.add_emergencyswitch"),
    *("auth_errors.change_cluster", "auth_errors.change_autherror"),
    *("auth_errors.add_decisionrule", "auth_errors.change_decisionrule"),
    *("automations.add_automationrule", "automations.change_automationrule"),
    *("workspaces.add_workspace", "workspaces.change_workspace", "workspaces.change_workspacedriver"),
)
FINANCE: Final = (*VIEWER, "audit.view_auditentry", "budget.add_ledgerentry")
ROLES: Final = {"viewer": VIEWER, "operator": OPERATOR, "finance": FINANCE}


def make_roles(apps: Any, _schema: Any = None) -> None:
    """Safe to repeat: adds what a role lacks, and takes nothing from one that people have widened.

    Django makes permissions after all migrations; those named here are made now, as it would.
    """
    groups, permissions = apps.get_model("auth", "Group"), apps.get_model("auth", "Permission")
    kinds = apps.get_model("contenttypes", "ContentType")
    for role, named in ROLES.items():
        group, _ = groups.objects.get_or_create(name=role)
        for name in named:
            app, _, codename = name.partition(".")
            act, _, model = codename.partition("_")
            kind, _ = kinds.objects.get_or_create(app_label=app, model=model)
            permission, _ = permissions.objects.get_or_create(
                content_type=kind, codename=codename, defaults={"name": f"Can {act} {model}"}
            )
            group.permissions.add(permission)


class Migration(migrations.Migration):
    dependencies = [
        ("signin", "0001_second_factors"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [migrations.RunPython(make_roles, migrations.RunPython.noop)]
