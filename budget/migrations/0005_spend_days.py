"""Where a run counts, beside its entries, and what its date came to once it is summed up."""

import django.db.models.deletion
from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('budget', '0004_snapshot_guards'),
        ('tenants', '0007_spend_caps'),
    ]

    operations = [
        migrations.CreateModel(
            name='SpendDay',
            fields=[
                ('spend_day_id', models.BigAutoField(primary_key=True, serialize=False)),
                ("tenant", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='tenants.tenant')),
                ('lineage_id', models.UUIDField(null=True)),
                ('spend_day', models.DateField()),
                ('pack_type', models.TextField()),
                ('reason', models.TextField(db_default='')),
                ('charged_usd_micros', models.BigIntegerField()),
                ('credited_usd_micros', models.BigIntegerField()),
                ('runs', models.BigIntegerField()),
                ('tokens', models.BigIntegerField()),
            ],
            options={
                'db_table': 'spend_days',
            },
        ),
        migrations.AddField(
            model_name='ledgerentry',
            name='lineage_id',
            field=models.UUIDField(null=True),
        ),
        migrations.AddField(
            model_name='ledgerentry',
            name='spend_day',
            field=models.DateField(null=True),
        ),
        AddConstraintNotValid(
            model_name='ledgerentry',
            constraint=models.CheckConstraint(condition=models.Q(('spend_day__isnull', True), models.Q(models.Q(('kind', 'TOPUP'), _negated=True), ('run_id__isnull', False)), _connector='OR'), name='ledger_entries_spend_day_of_a_run'),
        ),
        migrations.AddConstraint(
            model_name='spendday',
            constraint=models.UniqueConstraint(fields=('tenant', 'spend_day', 'lineage_id', 'pack_type', 'reason'), name='spend_days_once', nulls_distinct=False),
        ),
    ]
