"""What constraints cannot refuse: changing the ledger, and writing into days that are already summed up."""

from django.db import migrations

REFUSE_CHANGE = """
CREATE FUNCTION ledger_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$
"""
APPEND_ONLY = """
CREATE TRIGGER ledger_entries_append_only BEFORE UPDATE OR DELETE ON ledger_entries
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change()
"""
SNAPSHOTS_STAY = """
CREATE TRIGGER balance_snapshots_never_change BEFORE UPDATE ON balance_snapshots
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change()
"""
REFUSE_SUMMED_DAY = """
CREATE FUNCTION ledger_refuse_summed_day() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM balance_snapshots WHERE tenant_id = NEW.tenant_id AND through > NEW.created_at) THEN
        RAISE EXCEPTION 'ledger_entries: what came before % is summed up', NEW.created_at
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$
"""
AFTER_THE_SNAPSHOT = """
CREATE TRIGGER ledger_entries_after_the_snapshot BEFORE INSERT ON ledger_entries
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_summed_day()
"""


class Migration(migrations.Migration):
    dependencies = [("budget", "0001_ledger")]

    operations = [
        migrations.RunSQL([REFUSE_CHANGE], ["DROP FUNCTION ledger_refuse_change"]),
        migrations.RunSQL([APPEND_ONLY], ["DROP TRIGGER ledger_entries_append_only ON ledger_entries"]),
        migrations.RunSQL([SNAPSHOTS_STAY], ["DROP TRIGGER balance_snapshots_never_change ON balance_snapshots"]),
        migrations.RunSQL([REFUSE_SUMMED_DAY], ["DROP FUNCTION ledger_refuse_summed_day"]),
        migrations.RunSQL([AFTER_THE_SNAPSHOT], ["DROP TRIGGER ledger_entries_after_the_snapshot ON ledger_entries"]),
    ]
