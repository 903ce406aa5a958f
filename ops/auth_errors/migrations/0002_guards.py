"""What constraints cannot refuse: steps that no edge makes, leaving a terminal status, and changing what is history."""

from django.db import migrations

STEP_IS_LEGAL = """
CREATE FUNCTION auth_error_step_is_legal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.status IN ('PROCESSED', 'FAILED', 'RESOLVED', 'IGNORED') THEN
        RAISE EXCEPTION 'auth_error: % is terminal', OLD.auth_error_id USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.version <> OLD.version + 1 THEN
        RAISE EXCEPTION 'auth_error: the version grows by one' USING ERRCODE = 'restrict_violation';
    END IF;
    IF (OLD.status, NEW.status) NOT IN (
        ('NEW', 'ANALYSIS_REQUESTED'), ('ANALYSIS_REQUESTED', 'ANALYSIS_COMPLETED'),
        ('ANALYSIS_COMPLETED', 'PROCESSED'), ('ANALYSIS_COMPLETED', 'FAILED'), ('ANALYSIS_COMPLETED', 'RESOLVED'),
        ('ANALYSIS_COMPLETED', 'IGNORED'), ('ANALYSIS_COMPLETED', 'RETRY'), ('RETRY', 'ANALYSIS_REQUESTED')
    ) THEN
        RAISE EXCEPTION 'auth_error: % to % is no edge', OLD.status, NEW.status USING ERRCODE = 'restrict_violation';
    END IF;
    IF (NEW.auth_error_id, NEW.tenant_id, NEW.dedup_key, NEW.recorded_at, NEW.occurred_at, NEW.http_status,
        NEW.exception_class, NEW.exception_message, NEW.root_cause_class, NEW.root_cause_message, NEW.stacktrace,
        NEW.frames, NEW.request_uri)
        IS DISTINCT FROM
       (OLD.auth_error_id, OLD.tenant_id, OLD.dedup_key, OLD.recorded_at, OLD.occurred_at, OLD.http_status,
        OLD.exception_class, OLD.exception_message, OLD.root_cause_class, OLD.root_cause_message, OLD.stacktrace,
        OLD.frames, OLD.request_uri) THEN
        RAISE EXCEPTION 'auth_error: what was reported does not change' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$
"""
STEPS = """
CREATE TRIGGER auth_error_step_is_legal BEFORE UPDATE ON auth_error
    FOR EACH ROW EXECUTE FUNCTION auth_error_step_is_legal()
"""
REFUSE_CHANGE = """
CREATE FUNCTION auth_error_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is never changed', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$
"""
DECISIONS = """
CREATE TRIGGER auth_error_decision_is_kept BEFORE UPDATE ON auth_error_decision
    FOR EACH ROW EXECUTE FUNCTION auth_error_refuse_change()
"""


class Migration(migrations.Migration):
    dependencies = [("auth_errors", "0001_auth_errors")]

    operations = [
        migrations.RunSQL([STEP_IS_LEGAL], ["DROP FUNCTION auth_error_step_is_legal"]),
        migrations.RunSQL([STEPS], ["DROP TRIGGER auth_error_step_is_legal ON auth_error"]),
        migrations.RunSQL([REFUSE_CHANGE], ["DROP FUNCTION auth_error_refuse_change"]),
        migrations.RunSQL([DECISIONS], ["DROP TRIGGER auth_error_decision_is_kept ON auth_error_decision"]),
    ]
