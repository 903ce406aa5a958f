"""A run whose message had died once, and that is at work under its key, stays so until it has ended."""

from django.db import migrations

FOLLOW = """
CREATE OR REPLACE FUNCTION run_turns_follow_the_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.finalize_stage IS NOT NULL AND (NEW.finalize_stage = 'COMMITTED' OR NEW.status = 'QUEUED') THEN
        DELETE FROM run_turns WHERE run_id = NEW.run_id;
    ELSIF NEW.finalize_stage IS NULL AND NEW.status = 'PROCESSING' THEN
        DELETE FROM run_turns WHERE run_id = NEW.run_id AND concurrency_key IS NULL;
        UPDATE run_turns SET stands = 'AT_WORK' WHERE run_id = NEW.run_id;
    ELSIF NEW.dead_lettered_at IS NOT NULL AND {queued} THEN
        DELETE FROM run_turns WHERE run_id = NEW.run_id AND concurrency_key IS NULL;
        UPDATE run_turns SET stands = 'PARKED' WHERE run_id = NEW.run_id;
    END IF;
    RETURN NULL;
END
$$
"""


class Migration(migrations.Migration):
    dependencies = [("runs", "0010_fewer_indexes")]

    operations = [migrations.RunSQL([FOLLOW.format(queued="NEW.status = 'QUEUED'")], [FOLLOW.format(queued="true")])]
