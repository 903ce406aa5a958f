"""What constraints cannot refuse: steps that no edge makes, and a change of what happened or was asked for."""

from django.db import migrations


def guard(table: str, edges: str, frozen: list[str], *, versioned: bool = True) -> str:
    new, old = (", ".join(f"{row}.{column}" for column in frozen) for row in ("NEW", "OLD"))
    version = (
        f"""
    IF NEW.version <> OLD.version + 1 THEN
        RAISE EXCEPTION '{table}: the version grows by one' USING ERRCODE = 'restrict_violation';
    END IF;"""
        if versioned
        else ""
    )
    return f"""
CREATE FUNCTION {table}_step_is_legal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN{version}
    IF NEW.status <> OLD.status AND (OLD.status, NEW.status) NOT IN ({edges}) THEN
        RAISE EXCEPTION '{table}: % to % is no edge', OLD.status, NEW.status USING ERRCODE = 'restrict_violation';
    END IF;
    IF ({new}) IS DISTINCT FROM ({old}) THEN
        RAISE EXCEPTION '{table}: what was noted at first does not change' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$
"""


GUARDS = {
    "automation_event": guard(
        "automation_event",
        "('PENDING', 'DISPATCHED'), ('PENDING', 'COMPLETED'), ('DISPATCHED', 'COMPLETED')",
        ["event_pk", "source_id", "event_id", "emission", "payload", "thread", "actor", "occurred_at", "seen_at",
         "resumes_id"],
    ),
    "automation_task": guard(
        "automation_task",
        "('PENDING', 'IN_PROGRESS'), ('PENDING', 'COMPLETED'), ('IN_PROGRESS', 'COMPLETED')",
        ["task_id", "number", "event_id", "rule_id", "tenant_id", "pack_type", "max_cost_usd_micros", "timebox_sec",
         "attempts_max", "workspace_id", "context_file", "thread", "resumes_id", "created_at"],
    ),
    "automation_attempt": guard(
        "automation_attempt",
        "('OPEN', 'RUNNING'), ('OPEN', 'REFUSED'), ('RUNNING', 'SUCCEEDED'), ('RUNNING', 'FAILED')",
        ["task_id", "attempt", "rule_id", "reserved_usd_micros", "began_at"],
        versioned=False,
    ),
    "automation_message": guard(
        "automation_message",
        "('PENDING', 'SENT'), ('PENDING', 'FAILED')",
        ["message_id", "number", "key", "kind", "channel", "target", "body", "task_id", "rule_id", "created_at"],
    ),
}  # fmt: skip


class Migration(migrations.Migration):
    dependencies = [("automations", "0001_automations")]

    operations = [
        operation
        for table, function in GUARDS.items()
        for operation in (
            migrations.RunSQL([function], [f"DROP FUNCTION {table}_step_is_legal"]),
            migrations.RunSQL(
                [
                    f"CREATE TRIGGER {table}_step_is_legal BEFORE UPDATE ON {table}"
                    f" FOR EACH ROW EXECUTE FUNCTION {table}_step_is_legal()"
                ],
                [f"DROP TRIGGER {table}_step_is_legal ON {table}"],
            ),
        )
    ]
