"""Zones, lineages of keys and the caps of both. The few keys there are get their lineages at once."""

import django.contrib.postgres.functions
import django.db.models.deletion
import uuid
from django.db import migrations, models

ONE_LINEAGE_FOR_ROTATIONS = """
WITH RECURSIVE line (key_id, lineage_id) AS (
    SELECT key_id, lineage_id FROM api_keys
     WHERE NOT EXISTS (SELECT FROM api_keys older WHERE older.replaced_by_id = api_keys.key_id)
    UNION ALL
    SELECT older.replaced_by_id, line.lineage_id FROM line JOIN api_keys older USING (key_id)
     WHERE older.replaced_by_id IS NOT NULL
)
UPDATE api_keys SET lineage_id = line.lineage_id FROM line
 WHERE line.key_id = api_keys.key_id AND api_keys.lineage_id <> line.lineage_id
"""


class Migration(migrations.Migration):

    dependencies = [
        ('tenants', '0006_low_balance'),
    ]

    operations = [
        migrations.CreateModel(
            name='SpendCap',
            fields=[
                ('cap_id', models.UUIDField(db_default=django.contrib.postgres.functions.RandomUUID(), default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("tenant", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='caps', to='tenants.tenant')),
                ('lineage_id', models.UUIDField(null=True)),
                ('day_usd_micros', models.BigIntegerField(null=True)),
                ('week_usd_micros', models.BigIntegerField(null=True)),
                ('month_usd_micros', models.BigIntegerField(null=True)),
                ('total_usd_micros', models.BigIntegerField(null=True)),
                ('revision', models.BigIntegerField()),
                ('actor', models.TextField()),
                ('changed_at', models.DateTimeField(db_default=django.contrib.postgres.functions.TransactionNow())),
                ('told', models.JSONField(db_default={}, default=dict)),
            ],
            options={
                'db_table': 'spend_caps',
            },
        ),
        migrations.RemoveConstraint(
            model_name='apikey',
            name='api_keys_scopes_fit_tenant',
        ),
        migrations.AddField(
            model_name='apikey',
            name='lineage_id',
            field=models.UUIDField(db_default=django.contrib.postgres.functions.RandomUUID(), default=uuid.uuid4, editable=False),
        ),
        migrations.AddField(
            model_name='tenant',
            name='zone',
            field=models.TextField(blank=True, db_default='UTC', default='UTC', help_text='Its midnight ends a day, a week and a month of spending: UTC, or a name such as Europe/Berlin.', verbose_name='time zone'),
        ),
        migrations.AddConstraint(
            model_name='apikey',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('scopes__contained_by', ['operator:read', 'operator:write']), ('tenant', 't_operator')), models.Q(models.Q(('tenant', 't_operator'), _negated=True), ('scopes__contained_by', ['budget:read', 'errors:write', 'keys:write', 'runs:read', 'runs:write', 'uploads:write', 'webhooks:write'])), _connector='OR'), name='api_keys_scopes_fit_tenant'),
        ),
        migrations.AddConstraint(
            model_name='tenant',
            constraint=models.CheckConstraint(condition=models.Q(('zone__regex', '^[A-Za-z0-9_+/-]{1,64}$')), name='tenants_zone_form'),
        ),
        migrations.AddConstraint(
            model_name='spendcap',
            constraint=models.UniqueConstraint(fields=('tenant', 'lineage_id'), name='spend_caps_one_per_scope', nulls_distinct=False),
        ),
        migrations.AddConstraint(
            model_name='spendcap',
            constraint=models.CheckConstraint(condition=models.Q(('day_usd_micros__isnull', True), ('day_usd_micros__range', (0, 9007199254740991)), _connector='OR'), name='spend_caps_day_range'),
        ),
        migrations.AddConstraint(
            model_name='spendcap',
            constraint=models.CheckConstraint(condition=models.Q(('week_usd_micros__isnull', True), ('week_usd_micros__range', (0, 9007199254740991)), _connector='OR'), name='spend_caps_week_range'),
        ),
        migrations.AddConstraint(
            model_name='spendcap',
            constraint=models.CheckConstraint(condition=models.Q(('month_usd_micros__isnull', True), ('month_usd_micros__range', (0, 9007199254740991)), _connector='OR'), name='spend_caps_month_range'),
        ),
        migrations.AddConstraint(
            model_name='spendcap',
            constraint=models.CheckConstraint(condition=models.Q(('total_usd_micros__isnull', True), ('total_usd_micros__range', (0, 9007199254740991)), _connector='OR'), name='spend_caps_total_range'),
        ),
        migrations.AddConstraint(
            model_name='spendcap',
            constraint=models.CheckConstraint(condition=models.Q(('revision__gt', 0)), name='spend_caps_revision_positive'),
        ),
        migrations.AddConstraint(
            model_name='spendcap',
            constraint=models.CheckConstraint(condition=models.Q(('actor', ''), _negated=True), name='spend_caps_actor_given'),
        ),
        migrations.RunSQL([ONE_LINEAGE_FOR_ROTATIONS], []),
    ]
