"""What constraints cannot refuse: steps that no edge makes, and changing what is history."""

from django.db import migrations

STEP_IS_LEGAL = """
CREATE FUNCTION tickets_step_is_legal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'tickets: none is deleted' USING ERRCODE = 'restrict_violation';
    END IF;
    IF OLD.status IN ('DONE', 'FAILED') THEN
        RAISE EXCEPTION 'tickets: % has ended', OLD.request_id USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.version <> OLD.version + 1 THEN
        RAISE EXCEPTION 'tickets: the version grows by one' USING ERRCODE = 'restrict_violation';
    END IF;
    IF (OLD.status, NEW.status) NOT IN (
        ('OPEN', 'OPEN'), ('OPEN', 'IN_PROGRESS'), ('OPEN', 'FAILED'),
        ('IN_PROGRESS', 'IN_PROGRESS'), ('IN_PROGRESS', 'DONE'), ('IN_PROGRESS', 'FAILED')
    ) THEN
        RAISE EXCEPTION 'tickets: % to % is no edge', OLD.status, NEW.status USING ERRCODE = 'restrict_violation';
    END IF;
    IF (NEW.request_id, NEW.request_type, NEW.payload, NEW.reason, NEW.requested_by, NEW.needs_approval)
        IS DISTINCT FROM
       (OLD.request_id, OLD.request_type, OLD.payload, OLD.reason, OLD.requested_by, OLD.needs_approval) THEN
        RAISE EXCEPTION 'tickets: what was asked for does not change' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$
"""
STEPS = """
CREATE TRIGGER tickets_step_is_legal BEFORE UPDATE OR DELETE ON tickets
    FOR EACH ROW EXECUTE FUNCTION tickets_step_is_legal()
"""
REFUSE_CHANGE = """
CREATE FUNCTION tickets_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$
"""
RESULTS = """
CREATE TRIGGER ticket_results_are_append_only BEFORE UPDATE OR DELETE ON ticket_results
    FOR EACH ROW EXECUTE FUNCTION tickets_refuse_change()
"""
SWITCHES = """
CREATE TRIGGER emergency_switches_are_append_only BEFORE UPDATE OR DELETE ON emergency_switches
    FOR EACH ROW EXECUTE FUNCTION tickets_refuse_change()
"""


class Migration(migrations.Migration):
    dependencies = [("tickets", "0001_tickets")]

    operations = [
        migrations.RunSQL([STEP_IS_LEGAL], ["DROP FUNCTION tickets_step_is_legal"]),
        migrations.RunSQL([STEPS], ["DROP TRIGGER tickets_step_is_legal ON tickets"]),
        migrations.RunSQL([REFUSE_CHANGE], ["DROP FUNCTION tickets_refuse_change"]),
        migrations.RunSQL([RESULTS], ["DROP TRIGGER ticket_results_are_append_only ON ticket_results"]),
        migrations.RunSQL([SWITCHES], ["DROP TRIGGER emergency_switches_are_append_only ON emergency_switches"]),
    ]
