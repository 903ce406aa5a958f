"""A daily sum is what the balance is proved from: none goes, and none comes that is not the sum of its entries."""

from django.db import migrations

SNAPSHOTS_STAY = """
CREATE TRIGGER balance_snapshots_stay BEFORE DELETE ON balance_snapshots
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change()
"""
REFUSE_ANOTHER_SUM = """
CREATE FUNCTION ledger_refuse_another_sum() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    base record;
    since record;
BEGIN
    IF NEW.through > now() THEN
        RAISE EXCEPTION 'balance_snapshots: % has not come yet', NEW.through USING ERRCODE = 'restrict_violation';
    END IF;
    SELECT through, total_usd_micros, credited_usd_micros INTO base FROM balance_snapshots
     WHERE tenant_id = NEW.tenant_id AND through < NEW.through ORDER BY through DESC LIMIT 1;
    SELECT coalesce(sum(amount_usd_micros), 0) AS total,
           coalesce(sum(amount_usd_micros) FILTER (WHERE kind <> 'CHARGE'), 0) AS credited
      INTO since FROM ledger_entries
     WHERE tenant_id = NEW.tenant_id
       AND created_at >= coalesce(base.through, '-infinity') AND created_at < NEW.through;
    IF NEW.total_usd_micros <> coalesce(base.total_usd_micros, 0) + since.total
       OR NEW.credited_usd_micros <> coalesce(base.credited_usd_micros, 0) + since.credited THEN
        RAISE EXCEPTION 'balance_snapshots: % before % is not the sum of its entries', NEW.total_usd_micros, NEW.through
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$
"""
SUMS_ALONE = """
CREATE TRIGGER balance_snapshots_are_sums BEFORE INSERT ON balance_snapshots
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_another_sum()
"""


class Migration(migrations.Migration):
    dependencies = [("budget", "0003_console")]

    operations = [
        migrations.RunSQL([SNAPSHOTS_STAY], ["DROP TRIGGER balance_snapshots_stay ON balance_snapshots"]),
        migrations.RunSQL([REFUSE_ANOTHER_SUM], ["DROP FUNCTION ledger_refuse_another_sum"]),
        migrations.RunSQL([SUMS_ALONE], ["DROP TRIGGER balance_snapshots_are_sums ON balance_snapshots"]),
    ]
