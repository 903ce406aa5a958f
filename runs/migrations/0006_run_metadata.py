"""The owner's words for a run, the price list it is charged by, and the files that lie beside its result."""

import django.db.models.deletion
from django.db import migrations, models

METADATA_GOES_WITH_THE_RUN = """
ALTER TABLE run_metadata ADD CONSTRAINT run_metadata_belongs_to_a_run
    FOREIGN KEY (run_id) REFERENCES runs (run_id) ON DELETE CASCADE
"""
KEPT = """
CREATE FUNCTION runs_sold_as_accepted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.price_version IS DISTINCT FROM OLD.price_version THEN
        PERFORM runs_refuse('runs_identity_is_fixed', 'what was accepted does not change');
    END IF;
    IF NEW.result_artifacts IS DISTINCT FROM OLD.result_artifacts AND NEW.version = OLD.version THEN
        PERFORM runs_refuse('runs_version_grows', 'what a run is changes only together with its version');
    END IF;
    IF NEW.result_artifacts IS NOT NULL AND NEW.result_key IS NULL THEN
        PERFORM runs_refuse('runs_artifacts_need_a_result', 'files lie beside a result');
    END IF;
    IF NEW.result_artifacts IS DISTINCT FROM OLD.result_artifacts AND NEW.result_artifacts IS NOT NULL
       AND (OLD.finalize_stage IS NOT NULL OR NEW.finalize_stage IS DISTINCT FROM 'CLAIMED') THEN
        PERFORM runs_refuse('runs_artifacts_are_kept', 'the claim writes the files down, and nothing after it');
    END IF;
    RETURN NEW;
END
$$
"""
KEPT_TRIGGER = """
CREATE TRIGGER runs_sold_as_accepted BEFORE UPDATE ON runs FOR EACH ROW
    WHEN (NEW.price_version IS DISTINCT FROM OLD.price_version
          OR NEW.result_artifacts IS DISTINCT FROM OLD.result_artifacts
          OR NEW.result_artifacts IS NOT NULL AND NEW.result_key IS NULL)
    EXECUTE FUNCTION runs_sold_as_accepted()
"""
WRITTEN_ONCE = """
CREATE FUNCTION run_metadata_is_written_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM runs_refuse('run_metadata_is_written_once', 'metadata is deleted, and never changed');
    RETURN NULL;
END
$$
"""
WRITTEN_ONCE_TRIGGER = """
CREATE TRIGGER run_metadata_is_written_once BEFORE UPDATE ON run_metadata
    FOR EACH ROW EXECUTE FUNCTION run_metadata_is_written_once()
"""


class Migration(migrations.Migration):
    dependencies = [("tenants", "0009_one_lineage_for_rotations"), ("runs", "0005_spend_day")]

    operations = [
        migrations.AddField("run", "price_version", models.TextField(null=True)),
        migrations.AddField("run", "result_artifacts", models.JSONField(null=True)),
        migrations.RunSQL([KEPT], ["DROP FUNCTION runs_sold_as_accepted()"]),
        migrations.RunSQL([KEPT_TRIGGER], ["DROP TRIGGER runs_sold_as_accepted ON runs"]),
        migrations.CreateModel(
            name="RunMetadata",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "run_id", "key", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("key", models.TextField()),
                ("value", models.TextField()),
                ("created_at", models.DateTimeField()),
                (
                    "run",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="metadata_rows",
                        to="runs.run",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "run metadata",
                "db_table": "run_metadata",
                "indexes": [
                    models.Index(
                        models.F("key"),
                        models.F("value"),
                        models.F("tenant"),
                        models.OrderBy(models.F("created_at"), descending=True),
                        models.OrderBy(models.F("run_id"), descending=True),
                        name="idx_run_metadata_found",
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("key__regex", "^[A-Za-z0-9_.:-]{1,40}$")), name="run_metadata_key_form"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("value__regex", "^.{1,250}.{0,250}$")), name="run_metadata_value_size"
                    ),
                ],
            },
        ),
        migrations.RunSQL(
            [METADATA_GOES_WITH_THE_RUN], ["ALTER TABLE run_metadata DROP CONSTRAINT run_metadata_belongs_to_a_run"]
        ),
        migrations.RunSQL([WRITTEN_ONCE], ["DROP FUNCTION run_metadata_is_written_once()"]),
        migrations.RunSQL([WRITTEN_ONCE_TRIGGER], ["DROP TRIGGER run_metadata_is_written_once ON run_metadata"]),
    ]
