"""The line that runs wait in: a row for each that has a turn, and for each of a key until it has ended.

A turn waits from the hold on, so that the line is read by itself: the first of it can start. A turn is LIMITED while its
tenant has as many at work as it may.
"""

import django.db.models.deletion
from django.db import migrations, models

GOES_WITH_THE_RUN = """
ALTER TABLE run_turns ADD CONSTRAINT run_turns_belong_to_a_run
    FOREIGN KEY (run_id) REFERENCES runs (run_id) ON DELETE CASCADE
"""
# A trigger goes by the row alone, also where a process of the release before moves it: no death leaves a turn behind.
FOLLOW = """
CREATE FUNCTION run_turns_follow_the_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.finalize_stage IS NOT NULL AND (NEW.finalize_stage = 'COMMITTED' OR NEW.status = 'QUEUED') THEN
        DELETE FROM run_turns WHERE run_id = NEW.run_id;
    ELSIF NEW.finalize_stage IS NULL AND NEW.status = 'PROCESSING' THEN
        DELETE FROM run_turns WHERE run_id = NEW.run_id AND concurrency_key IS NULL;
        UPDATE run_turns SET stands = 'AT_WORK' WHERE run_id = NEW.run_id;
    ELSIF NEW.dead_lettered_at IS NOT NULL AND NEW.status = 'QUEUED' THEN
        DELETE FROM run_turns WHERE run_id = NEW.run_id AND concurrency_key IS NULL;
        UPDATE run_turns SET stands = 'PARKED' WHERE run_id = NEW.run_id;
    ELSIF NEW.money_state = 'RESERVED' AND OLD.money_state = 'NONE' THEN
        UPDATE run_turns SET stands = 'WAITING' WHERE run_id = NEW.run_id AND stands = 'UNHELD';
    END IF;
    RETURN NULL;
END
$$
"""
FOLLOW_TRIGGER = """
CREATE TRIGGER run_turns_follow_the_run AFTER UPDATE ON runs FOR EACH ROW
    WHEN (NEW.status <> OLD.status OR NEW.finalize_stage IS DISTINCT FROM OLD.finalize_stage
          OR NEW.money_state <> OLD.money_state OR NEW.dead_lettered_at IS DISTINCT FROM OLD.dead_lettered_at)
    EXECUTE FUNCTION run_turns_follow_the_run()
"""


class Migration(migrations.Migration):
    dependencies = [("tenants", "0011_share_weight"), ("runs", "0007_derived_key_index")]

    operations = [
        migrations.CreateModel(
            name="RunTurn",
            fields=[
                (
                    "run",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        primary_key=True,
                        related_name="turn",
                        serialize=False,
                        to="runs.run",
                    ),
                ),
                ("pack_type", models.TextField()),
                ("fair_pass", models.BigIntegerField()),
                ("priority", models.SmallIntegerField(db_default=5)),
                ("concurrency_key", models.TextField(null=True)),
                (
                    "stands",
                    models.TextField(
                        choices=[
                            ("UNHELD", "Unheld"),
                            ("WAITING", "Waiting"),
                            ("PARKED", "Parked"),
                            ("LIMITED", "Limited"),
                            ("AT_WORK", "At Work"),
                        ],
                        db_default="UNHELD",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "db_table": "run_turns",
                "indexes": [
                    models.Index(
                        fields=["fair_pass", "run"],
                        name="idx_run_turns_head",
                        condition=models.Q(("stands", "WAITING")),
                    ),
                    models.Index(
                        models.F("tenant"),
                        models.OrderBy(models.F("priority"), descending=True),
                        models.F("run"),
                        name="idx_run_turns_of_tenant",
                        condition=models.Q(("stands", "WAITING")),
                    ),
                    models.Index(
                        models.F("tenant"),
                        models.F("concurrency_key"),
                        models.F("stands"),
                        models.OrderBy(models.F("priority"), descending=True),
                        models.F("run"),
                        name="idx_run_turns_of_key",
                        condition=models.Q(("concurrency_key__isnull", False)),
                    ),
                    models.Index(
                        models.F("tenant"),
                        models.OrderBy(models.F("priority"), descending=True),
                        models.F("run"),
                        name="idx_run_turns_limited",
                        condition=models.Q(("stands", "LIMITED")),
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("priority__range", (0, 9))), name="run_turns_priority_range"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("concurrency_key__isnull", True),
                            ("concurrency_key__regex", "^[A-Za-z0-9_.:-]{1,64}$"),
                            _connector="OR",
                        ),
                        name="run_turns_concurrency_key_form",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("stands__in", ["AT_WORK", "LIMITED", "PARKED", "UNHELD", "WAITING"])),
                        name="run_turns_stands_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("stands__in", ["UNHELD", "WAITING", "LIMITED"]),
                            ("concurrency_key__isnull", False),
                            _connector="OR",
                        ),
                        name="run_turns_only_keys_are_parked",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ConcurrencyLimit",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "key", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("key", models.TextField()),
                ("most_at_work", models.IntegerField()),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "db_table": "concurrency_limits",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("key__regex", "^[A-Za-z0-9_.:-]{1,64}$")), name="concurrency_limits_key_form"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("most_at_work__range", (1, 1000))), name="concurrency_limits_range"
                    ),
                ],
            },
        ),
        migrations.RunSQL([GOES_WITH_THE_RUN], ["ALTER TABLE run_turns DROP CONSTRAINT run_turns_belong_to_a_run"]),
        migrations.RunSQL([FOLLOW], ["DROP FUNCTION run_turns_follow_the_run()"]),
        migrations.RunSQL([FOLLOW_TRIGGER], ["DROP TRIGGER run_turns_follow_the_run ON runs"]),
    ]
