"""What constraints cannot refuse: a column changed by another than its writer, a volume or archive that comes back."""

from django.db import migrations

WRITER_OWNS = """
CREATE FUNCTION workspace_writer_owns() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    writer text := coalesce(nullif(current_setting('dpp.writer', true), ''), 'nobody');
    owner text;
BEGIN
    IF (NEW.workspace_id, NEW.tenant_id, NEW.created_at) IS DISTINCT FROM
       (OLD.workspace_id, OLD.tenant_id, OLD.created_at) THEN
        RAISE EXCEPTION 'workspace %: its id, tenant and birth do not change', OLD.workspace_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF writer <> 'api' AND (NEW.name, NEW.spec, NEW.generation, NEW.desired_state, NEW.standby_ttl_seconds,
        NEW.archive_ttl_seconds, NEW.delete_requested_at, NEW.discard, NEW.recover_generation, NEW.recover_from)
        IS DISTINCT FROM (OLD.name, OLD.spec, OLD.generation, OLD.desired_state, OLD.standby_ttl_seconds,
        OLD.archive_ttl_seconds, OLD.delete_requested_at, OLD.discard, OLD.recover_generation, OLD.recover_from)
    THEN owner := 'api'; END IF;
    IF writer <> 'monitor' AND (NEW.conditions, NEW.phase, NEW.observed_at, NEW.observed_rev, NEW.observed_generation)
        IS DISTINCT FROM (OLD.conditions, OLD.phase, OLD.observed_at, OLD.observed_rev, OLD.observed_generation)
    THEN owner := 'monitor'; END IF;
    IF writer <> 'reconciler' AND (NEW.driver_id, NEW.operation, NEW.op_id, NEW.op_attempt, NEW.op_step, NEW.rev,
        NEW.op_started_at, NEW.op_lease_until, NEW.op_progress_bytes, NEW.archive_key, NEW.home_ctx, NEW.error_count,
        NEW.error_info, NEW.reconcile_failure_count, NEW.next_reconcile_at, NEW.recovered_generation, NEW.deleted_at,
        NEW.purged_at)
        IS DISTINCT FROM (OLD.driver_id, OLD.operation, OLD.op_id, OLD.op_attempt, OLD.op_step, OLD.rev,
        OLD.op_started_at, OLD.op_lease_until, OLD.op_progress_bytes, OLD.archive_key, OLD.home_ctx, OLD.error_count,
        OLD.error_info, OLD.reconcile_failure_count, OLD.next_reconcile_at, OLD.recovered_generation, OLD.deleted_at,
        OLD.purged_at)
    THEN owner := 'reconciler'; END IF;
    IF owner IS NOT NULL THEN
        RAISE EXCEPTION 'workspace %: % changes a column of %', OLD.workspace_id, writer, owner
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.rev < OLD.rev OR NEW.generation < OLD.generation OR NEW.recover_generation < OLD.recover_generation THEN
        RAISE EXCEPTION 'workspace %: a count went back', OLD.workspace_id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$
"""
WRITER = """
CREATE TRIGGER workspace_writer_owns BEFORE UPDATE ON workspaces
    FOR EACH ROW EXECUTE FUNCTION workspace_writer_owns()
"""
VOLUME_STEP = """
CREATE FUNCTION workspace_volume_step_is_legal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.volume_name, NEW.workspace_id, NEW.driver_id, NEW.op_id, NEW.attempt, NEW.epoch) IS DISTINCT FROM
       (OLD.volume_name, OLD.workspace_id, OLD.driver_id, OLD.op_id, OLD.attempt, OLD.epoch) THEN
        RAISE EXCEPTION 'volume %: whose it is does not change', OLD.volume_name USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.state <> OLD.state AND (OLD.state, NEW.state) NOT IN (
        ('FILLING', 'LIVE'), ('FILLING', 'DOOMED'), ('LIVE', 'DOOMED'), ('LIVE', 'GONE'), ('DOOMED', 'GONE')
    ) THEN
        RAISE EXCEPTION 'volume %: % to % is no edge', OLD.volume_name, OLD.state, NEW.state
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$
"""
VOLUME = """
CREATE TRIGGER workspace_volume_step_is_legal BEFORE UPDATE ON workspace_volumes
    FOR EACH ROW EXECUTE FUNCTION workspace_volume_step_is_legal()
"""
ARCHIVE_STEP = """
CREATE FUNCTION workspace_archive_step_is_legal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.state = 'DELETED' AND NEW.state <> 'DELETED' THEN
        RAISE EXCEPTION 'archive %: it was deleted', OLD.archive_key USING ERRCODE = 'restrict_violation';
    END IF;
    IF (NEW.archive_key, NEW.workspace_id, NEW.op_id, NEW.token) IS DISTINCT FROM
       (OLD.archive_key, OLD.workspace_id, OLD.op_id, OLD.token) THEN
        RAISE EXCEPTION 'archive %: whose it is does not change', OLD.archive_key USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$
"""
ARCHIVE = """
CREATE TRIGGER workspace_archive_step_is_legal BEFORE UPDATE ON workspace_archives
    FOR EACH ROW EXECUTE FUNCTION workspace_archive_step_is_legal()
"""
REFUSE_CHANGE = """
CREATE FUNCTION workspace_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is never changed', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$
"""
EVENTS = """
CREATE TRIGGER workspace_event_is_kept BEFORE UPDATE ON workspace_events
    FOR EACH ROW EXECUTE FUNCTION workspace_refuse_change()
"""


class Migration(migrations.Migration):
    dependencies = [("workspaces", "0001_workspaces")]

    operations = [
        migrations.RunSQL([WRITER_OWNS], ["DROP FUNCTION workspace_writer_owns"]),
        migrations.RunSQL([WRITER], ["DROP TRIGGER workspace_writer_owns ON workspaces"]),
        migrations.RunSQL([VOLUME_STEP], ["DROP FUNCTION workspace_volume_step_is_legal"]),
        migrations.RunSQL([VOLUME], ["DROP TRIGGER workspace_volume_step_is_legal ON workspace_volumes"]),
        migrations.RunSQL([ARCHIVE_STEP], ["DROP FUNCTION workspace_archive_step_is_legal"]),
        migrations.RunSQL([ARCHIVE], ["DROP TRIGGER workspace_archive_step_is_legal ON workspace_archives"]),
        migrations.RunSQL([REFUSE_CHANGE], ["DROP FUNCTION workspace_refuse_change"]),
        migrations.RunSQL([EVENTS], ["DROP TRIGGER workspace_event_is_kept ON workspace_events"]),
    ]
