"""What a CHECK cannot see: the step from one row to the next, its record, and who may delete.

One command per entry: the connection prepares its statements, and a prepared statement holds one command.
"""

from django.db import migrations

INPUTS_GO_WITH_THE_RUN = """
ALTER TABLE run_inputs ADD CONSTRAINT run_inputs_belong_to_a_run
    FOREIGN KEY (run_id) REFERENCES runs (run_id) ON DELETE CASCADE
"""

DISPUTES_GO_WITH_THE_RUN = """
ALTER TABLE run_disputes ADD CONSTRAINT run_disputes_belong_to_a_run
    FOREIGN KEY (run_id) REFERENCES runs (run_id) ON DELETE CASCADE
"""

REFUSE = """
CREATE FUNCTION runs_refuse(rule text, said text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%: %', rule, said USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = rule;
END
$$
"""

# Times (lease, next send, dead letter, creation, retention) and the count of sends change without a version: they say
# when somebody may act, never what was decided.
STEP = """
CREATE FUNCTION runs_step_is_legal() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    same_state boolean;
    same_intent boolean;
BEGIN
    IF (NEW.run_id, NEW.tenant_id, NEW.pack_type, NEW.profile_version, NEW.payload_hash, NEW.trace_id,
        NEW.reservation_max_cost_usd_micros, NEW.minimum_fee_usd_micros)
       IS DISTINCT FROM
       (OLD.run_id, OLD.tenant_id, OLD.pack_type, OLD.profile_version, OLD.payload_hash, OLD.trace_id,
        OLD.reservation_max_cost_usd_micros, OLD.minimum_fee_usd_micros) THEN
        PERFORM runs_refuse('runs_identity_is_fixed', 'what was accepted does not change');
    END IF;

    IF NEW.version = OLD.version THEN
        IF (NEW.status, NEW.money_state, NEW.finalize_stage, NEW.finalize_token, NEW.intent_status,
            NEW.intent_money_state, NEW.intent_charge_usd_micros, NEW.intent_reason_code,
            NEW.actual_cost_usd_micros, NEW.tokens_consumed, NEW.result_bucket, NEW.result_key, NEW.result_sha256,
            NEW.last_error_reason_code, NEW.last_error_detail, NEW.lease_token, NEW.idempotency_key, NEW.last_actor)
           IS DISTINCT FROM
           (OLD.status, OLD.money_state, OLD.finalize_stage, OLD.finalize_token, OLD.intent_status,
            OLD.intent_money_state, OLD.intent_charge_usd_micros, OLD.intent_reason_code,
            OLD.actual_cost_usd_micros, OLD.tokens_consumed, OLD.result_bucket, OLD.result_key, OLD.result_sha256,
            OLD.last_error_reason_code, OLD.last_error_detail, OLD.lease_token, OLD.idempotency_key, OLD.last_actor)
        THEN
            PERFORM runs_refuse('runs_version_grows', 'what a run is changes only together with its version');
        END IF;
        RETURN NEW;
    END IF;
    IF NEW.version <> OLD.version + 1 THEN
        PERFORM runs_refuse('runs_version_grows', 'the version grows by one at each step');
    END IF;

    same_state := (NEW.status, NEW.money_state) = (OLD.status, OLD.money_state);
    same_intent := (NEW.intent_status, NEW.intent_money_state, NEW.intent_charge_usd_micros, NEW.intent_reason_code)
                   IS NOT DISTINCT FROM
                   (OLD.intent_status, OLD.intent_money_state, OLD.intent_charge_usd_micros, OLD.intent_reason_code);

    IF OLD.finalize_stage IS NULL AND NEW.finalize_stage IS NULL THEN
        IF (OLD.status, OLD.money_state, NEW.status, NEW.money_state) NOT IN (
               ('QUEUED', 'NONE', 'QUEUED', 'NONE'),
               ('QUEUED', 'NONE', 'QUEUED', 'RESERVED'),
               ('QUEUED', 'RESERVED', 'PROCESSING', 'RESERVED')) THEN
            PERFORM runs_refuse('runs_step_is_an_edge', format('%s %s does not become %s %s',
                                OLD.status, OLD.money_state, NEW.status, NEW.money_state));
        END IF;

    ELSIF OLD.finalize_stage IS NULL AND NEW.finalize_stage = 'CLAIMED' THEN
        IF NOT same_state THEN
            PERFORM runs_refuse('runs_step_is_an_edge', 'a claim decides, and moves nothing yet');
        END IF;

    ELSIF OLD.finalize_stage = 'CLAIMED' AND NEW.finalize_stage = 'CLAIMED' THEN
        IF NOT same_state THEN
            PERFORM runs_refuse('runs_step_is_an_edge', 'a claimed run moves only by its commit');
        END IF;
        IF NOT same_intent AND NOT (OLD.intent_status = 'COMPLETED' AND NEW.intent_status = 'FAILED'
                                    AND NEW.intent_reason_code = 'RESULT_LOST') THEN
            PERFORM runs_refuse('runs_intent_is_kept', 'nobody decides a claimed run a second time');
        END IF;

    ELSIF OLD.finalize_stage = 'CLAIMED' AND NEW.finalize_stage = 'COMMITTED' THEN
        IF NOT same_intent OR (NEW.status, NEW.money_state) <> (OLD.intent_status, OLD.intent_money_state) THEN
            PERFORM runs_refuse('runs_intent_is_kept', 'a commit carries out what the claim decided');
        END IF;

    ELSIF OLD.finalize_stage = 'COMMITTED' AND NEW.finalize_stage = 'COMMITTED' THEN
        IF NOT (NEW.status = OLD.status
                AND (OLD.money_state, NEW.money_state) IN (('SETTLED', 'DISPUTED'), ('DISPUTED', 'SETTLED'),
                                                           ('DISPUTED', 'REFUNDED'))
                OR NEW.money_state = OLD.money_state AND OLD.status <> 'EXPIRED' AND NEW.status = 'EXPIRED') THEN
            PERFORM runs_refuse('runs_committed_stays', 'an ended run is only disputed, resolved or expired');
        END IF;
        IF NOT same_intent
           OR (NEW.actual_cost_usd_micros, NEW.tokens_consumed, NEW.finalize_token, NEW.last_error_reason_code,
               NEW.lease_token)
              IS DISTINCT FROM
              (OLD.actual_cost_usd_micros, OLD.tokens_consumed, OLD.finalize_token, OLD.last_error_reason_code,
               OLD.lease_token)
           OR NEW.status = OLD.status
              AND (NEW.idempotency_key, NEW.result_bucket, NEW.result_key, NEW.result_sha256, NEW.last_error_detail)
                  IS DISTINCT FROM
                  (OLD.idempotency_key, OLD.result_bucket, OLD.result_key, OLD.result_sha256, OLD.last_error_detail)
        THEN
            PERFORM runs_refuse('runs_committed_stays', 'what an ended run cost and why does not change');
        END IF;

    ELSE
        PERFORM runs_refuse('runs_stage_only_advances', 'a stage is entered once and never left backwards');
    END IF;
    RETURN NEW;
END
$$
"""

STEP_TRIGGER = """
CREATE TRIGGER runs_step_is_legal BEFORE UPDATE ON runs FOR EACH ROW EXECUTE FUNCTION runs_step_is_legal()
"""

RECORD = """
CREATE FUNCTION runs_step_is_recorded() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO run_history (run_id, version, at, actor, status, money_state, stage)
    VALUES (NEW.run_id, NEW.version, clock_timestamp(), NEW.last_actor, NEW.status, NEW.money_state,
            NEW.finalize_stage);
    RETURN NULL;
END
$$
"""

RECORD_INSERT_TRIGGER = """
CREATE TRIGGER runs_birth_is_recorded AFTER INSERT ON runs FOR EACH ROW EXECUTE FUNCTION runs_step_is_recorded()
"""

RECORD_UPDATE_TRIGGER = """
CREATE TRIGGER runs_step_is_recorded AFTER UPDATE ON runs FOR EACH ROW
    WHEN (NEW.version IS DISTINCT FROM OLD.version) EXECUTE FUNCTION runs_step_is_recorded()
"""

# A row may go in two ways: its money was refused before it was held, or it has been a tombstone for a year and the
# retention says so by `SET LOCAL dpp.retention = 'on'`.
DELETE = """
CREATE FUNCTION runs_delete_is_legal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.status = 'QUEUED' AND OLD.money_state = 'NONE' AND OLD.finalize_stage IS NULL
       OR OLD.status = 'EXPIRED' AND OLD.money_state <> 'DISPUTED'
          AND OLD.retention_until < now() - interval '365 days'
          AND current_setting('dpp.retention', true) = 'on' THEN
        DELETE FROM run_history WHERE run_id = OLD.run_id;
        RETURN OLD;
    END IF;
    PERFORM runs_refuse('runs_delete_is_legal', 'a run is deleted before its money is held, or as an old tombstone');
    RETURN NULL;
END
$$
"""

DELETE_TRIGGER = """
CREATE TRIGGER runs_delete_is_legal BEFORE DELETE ON runs FOR EACH ROW EXECUTE FUNCTION runs_delete_is_legal()
"""

# History and disputes go with their run (then a trigger or a cascade asks), or by the retention.
APPEND_ONLY = """
CREATE FUNCTION runs_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND (pg_trigger_depth() > 1 OR current_setting('dpp.retention', true) = 'on') THEN
        RETURN OLD;
    END IF;
    PERFORM runs_refuse(TG_NAME, format('%s only grows', TG_TABLE_NAME));
    RETURN NULL;
END
$$
"""

HISTORY_TRIGGER = """
CREATE TRIGGER run_history_is_append_only BEFORE UPDATE OR DELETE ON run_history
    FOR EACH ROW EXECUTE FUNCTION runs_append_only()
"""

DISPUTES_TRIGGER = """
CREATE TRIGGER run_disputes_are_append_only BEFORE UPDATE OR DELETE ON run_disputes
    FOR EACH ROW EXECUTE FUNCTION runs_append_only()
"""


class Migration(migrations.Migration):
    dependencies = [("runs", "0001_runs")]

    operations = [
        migrations.RunSQL(
            INPUTS_GO_WITH_THE_RUN, "ALTER TABLE run_inputs DROP CONSTRAINT run_inputs_belong_to_a_run"
        ),
        migrations.RunSQL(
            DISPUTES_GO_WITH_THE_RUN, "ALTER TABLE run_disputes DROP CONSTRAINT run_disputes_belong_to_a_run"
        ),
        migrations.RunSQL(REFUSE, "DROP FUNCTION runs_refuse(text, text)"),
        migrations.RunSQL(STEP, "DROP FUNCTION runs_step_is_legal()"),
        migrations.RunSQL(STEP_TRIGGER, "DROP TRIGGER runs_step_is_legal ON runs"),
        migrations.RunSQL(RECORD, "DROP FUNCTION runs_step_is_recorded()"),
        migrations.RunSQL(RECORD_INSERT_TRIGGER, "DROP TRIGGER runs_birth_is_recorded ON runs"),
        migrations.RunSQL(RECORD_UPDATE_TRIGGER, "DROP TRIGGER runs_step_is_recorded ON runs"),
        migrations.RunSQL(DELETE, "DROP FUNCTION runs_delete_is_legal()"),
        migrations.RunSQL(DELETE_TRIGGER, "DROP TRIGGER runs_delete_is_legal ON runs"),
        migrations.RunSQL(APPEND_ONLY, "DROP FUNCTION runs_append_only()"),
        migrations.RunSQL(HISTORY_TRIGGER, "DROP TRIGGER run_history_is_append_only ON run_history"),
        migrations.RunSQL(DISPUTES_TRIGGER, "DROP TRIGGER run_disputes_are_append_only ON run_disputes"),
    ]
