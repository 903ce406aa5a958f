"""A turn waits from the hold on, so that the line is read by itself: the first of it can start."""

from django.db import migrations, models

FOLLOW = """
CREATE OR REPLACE FUNCTION run_turns_follow_the_run() RETURNS trigger LANGUAGE plpgsql AS $$
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
TRIGGER = """
CREATE OR REPLACE TRIGGER run_turns_follow_the_run AFTER UPDATE ON runs FOR EACH ROW
    WHEN (NEW.status <> OLD.status OR NEW.finalize_stage IS DISTINCT FROM OLD.finalize_stage
          OR NEW.money_state <> OLD.money_state OR NEW.dead_lettered_at IS DISTINCT FROM OLD.dead_lettered_at)
    EXECUTE FUNCTION run_turns_follow_the_run()
"""
# The function of before knows nothing of a hold: what is in the line waits.
BACK = "UPDATE run_turns SET stands = 'WAITING' WHERE stands = 'UNHELD'"


class Migration(migrations.Migration):
    dependencies = [("runs", "0011_claimed_is_at_work")]

    operations = [
        migrations.RemoveConstraint("runturn", "run_turns_stands_known"),
        migrations.RemoveConstraint("runturn", "run_turns_only_keys_are_parked"),
        migrations.AddConstraint(
            "runturn",
            models.CheckConstraint(
                condition=models.Q(("stands__in", ["AT_WORK", "PARKED", "UNHELD", "WAITING"])),
                name="run_turns_stands_known",
            ),
        ),
        migrations.AddConstraint(
            "runturn",
            models.CheckConstraint(
                condition=models.Q(
                    ("stands__in", ["UNHELD", "WAITING"]), ("concurrency_key__isnull", False), _connector="OR"
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
                    ("AT_WORK", "At Work"),
                ],
                db_default="UNHELD",
            ),
        ),
        migrations.RunSQL(migrations.RunSQL.noop, [BACK]),
        migrations.RunSQL([FOLLOW], migrations.RunSQL.noop),
        migrations.RunSQL([TRIGGER], migrations.RunSQL.noop),
    ]
