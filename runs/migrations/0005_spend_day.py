"""By which key a run was submitted and the date it counts in: the first is fixed, the second grows before the hold."""

from django.db import migrations, models

KEPT = """
CREATE FUNCTION runs_spend_day_is_legal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.lineage_id IS DISTINCT FROM OLD.lineage_id THEN
        PERFORM runs_refuse('runs_identity_is_fixed', 'what was accepted does not change');
    END IF;
    IF NEW.spend_day IS NULL OR NEW.spend_day <= OLD.spend_day OR NEW.version = OLD.version
       OR (OLD.money_state, NEW.money_state) <> ('NONE', 'NONE') OR NEW.finalize_stage IS NOT NULL THEN
        PERFORM runs_refuse('runs_spend_day_is_kept', 'a run is dated anew only before its hold, and only later');
    END IF;
    RETURN NEW;
END
$$
"""
KEPT_TRIGGER = """
CREATE TRIGGER runs_spend_day_is_legal BEFORE UPDATE ON runs FOR EACH ROW
    WHEN (NEW.spend_day IS DISTINCT FROM OLD.spend_day OR NEW.lineage_id IS DISTINCT FROM OLD.lineage_id)
    EXECUTE FUNCTION runs_spend_day_is_legal()
"""


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0004_upload_rooms'),
    ]

    operations = [
        migrations.AddField(
            model_name='run',
            name='lineage_id',
            field=models.UUIDField(null=True),
        ),
        migrations.AddField(
            model_name='run',
            name='spend_day',
            field=models.DateField(null=True),
        ),
        migrations.RunSQL([KEPT], ["DROP FUNCTION runs_spend_day_is_legal"]),
        migrations.RunSQL([KEPT_TRIGGER], ["DROP TRIGGER runs_spend_day_is_legal ON runs"]),
    ]
