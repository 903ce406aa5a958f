"""What constraints cannot refuse: changing what an event says, and a step that is no edge."""

from django.db import migrations

FUNCTION = """
CREATE FUNCTION outbox_step_is_legal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.status <> 'PENDING' THEN
            RAISE EXCEPTION 'outbox_message %: an event begins PENDING, not %', NEW.outbox_id, NEW.status
                USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF (NEW.outbox_id, NEW.aggregate_type, NEW.aggregate_id, NEW.event_type, NEW.idempotency_key, NEW.tenant_id,
        NEW.payload, NEW.created_at)
       IS DISTINCT FROM
       (OLD.outbox_id, OLD.aggregate_type, OLD.aggregate_id, OLD.event_type, OLD.idempotency_key, OLD.tenant_id,
        OLD.payload, OLD.created_at) THEN
        RAISE EXCEPTION 'outbox_message %: % is written, and is frozen', OLD.outbox_id, OLD.idempotency_key
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.status <> OLD.status AND (OLD.status, NEW.status) NOT IN (
        ('PENDING', 'PROCESSING'),
        ('PROCESSING', 'PUBLISHED'), ('PROCESSING', 'PENDING'), ('PROCESSING', 'DEAD'),
        ('PUBLISHED', 'PENDING'), ('DEAD', 'PENDING')) THEN
        RAISE EXCEPTION 'outbox_message %: % to % is no step', OLD.outbox_id, OLD.status, NEW.status
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$
"""
TRIGGER = """
CREATE TRIGGER outbox_step_is_legal BEFORE INSERT OR UPDATE ON outbox_message
    FOR EACH ROW EXECUTE FUNCTION outbox_step_is_legal()
"""
# Each event is updated a few times within seconds: with room on its page an update that touches no index stays there.
ROOM = "ALTER TABLE processed_message SET (fillfactor = 60)"


class Migration(migrations.Migration):
    dependencies = [("outbox", "0001_events")]

    operations = [
        migrations.RunSQL([FUNCTION], ["DROP FUNCTION outbox_step_is_legal"]),
        migrations.RunSQL([TRIGGER], ["DROP TRIGGER outbox_step_is_legal ON outbox_message"]),
        migrations.RunSQL([ROOM], ["ALTER TABLE processed_message RESET (fillfactor)"]),
    ]
