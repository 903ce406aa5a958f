"""A turn may be kept back because its tenant has as many at work as it may."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0012_turns_of_held_runs"), ("tenants", "0012_most_at_work")]

    operations = [
        migrations.RemoveConstraint("runturn", "run_turns_stands_known"),
        migrations.RemoveConstraint("runturn", "run_turns_only_keys_are_parked"),
        migrations.AddConstraint(
            "runturn",
            models.CheckConstraint(
                condition=models.Q(("stands__in", ["AT_WORK", "LIMITED", "PARKED", "UNHELD", "WAITING"])),
                name="run_turns_stands_known",
            ),
        ),
        migrations.AddConstraint(
            "runturn",
            models.CheckConstraint(
                condition=models.Q(
                    ("stands__in", ["UNHELD", "WAITING", "LIMITED"]), ("concurrency_key__isnull", False), _connector="OR"
                ),
                name="run_turns_only_keys_are_parked",
            ),
        ),
        migrations.AlterField(
            "runturn",
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
        migrations.RunSQL(
            migrations.RunSQL.noop, ["UPDATE run_turns SET stands = 'WAITING' WHERE stands = 'LIMITED'"]
        ),
    ]
