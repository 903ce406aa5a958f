"""A daily sum that a clock ahead had written stops no entry once the clock is set back."""

from django.db import migrations

WITH_A_CLOCK_SET_BACK = """
CREATE OR REPLACE FUNCTION ledger_refuse_summed_day() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    summed timestamptz;
BEGIN
    SELECT max(through) INTO summed FROM balance_snapshots
     WHERE tenant_id = NEW.tenant_id AND through > NEW.created_at;
    IF summed IS NULL THEN
        RETURN NEW;
    END IF;
    -- Only a clock that was ahead can have summed up what has not come yet. The entry stands right behind that sum.
    IF summed > clock_timestamp() THEN
        NEW.created_at := summed;
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'ledger_entries: what came before % is summed up', NEW.created_at
        USING ERRCODE = 'restrict_violation';
END $$
"""
AS_BEFORE = """
CREATE OR REPLACE FUNCTION ledger_refuse_summed_day() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM balance_snapshots WHERE tenant_id = NEW.tenant_id AND through > NEW.created_at) THEN
        RAISE EXCEPTION 'ledger_entries: what came before % is summed up', NEW.created_at
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$
"""


class Migration(migrations.Migration):
    dependencies = [("budget", "0007_snapshots_with_days")]

    operations = [migrations.RunSQL([WITH_A_CLOCK_SET_BACK], [AS_BEFORE])]
