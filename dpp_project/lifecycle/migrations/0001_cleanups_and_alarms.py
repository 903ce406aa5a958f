"""Cleanups by day, alarms, and the sizes of data and disks, each once a day."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='DataCleanup',
            fields=[
                ('day', models.DateField(primary_key=True, serialize=False)),
                ('due_at', models.DateTimeField()),
                ('started_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('ended_at', models.DateTimeField(null=True)),
                ('failures', models.PositiveIntegerField(db_default=0, default=0)),
                ('next_try_at', models.DateTimeField(null=True)),
            ],
            options={
                'verbose_name': 'cleanup',
                'db_table': 'data_cleanups',
                'ordering': ['-day'],
            },
        ),
        migrations.CreateModel(
            name='Alarm',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.TextField()),
                ('subject', models.TextField()),
                ('said', models.TextField()),
                ('began_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('ended_at', models.DateTimeField(null=True)),
            ],
            options={
                'db_table': 'alarms',
                'ordering': ['-pk'],
                'indexes': [models.Index(fields=['ended_at'], name='idx_alarms_ended')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('ended_at__isnull', True)), fields=('name', 'subject'), name='alarms_one_open')],
            },
        ),
        migrations.CreateModel(
            name='CleanupStep',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.TextField()),
                ('watermark', models.JSONField(null=True)),
                ('rows', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('bytes_deleted', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('table_bytes_before', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('table_bytes_after', models.PositiveBigIntegerField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('error', models.TextField(blank=True, db_default='', default='')),
                ('cleanup', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='steps', to='lifecycle.datacleanup')),
            ],
            options={
                'db_table': 'data_cleanup_steps',
                'constraints': [models.UniqueConstraint(fields=('cleanup', 'kind'), name='data_cleanup_steps_once')],
            },
        ),
        migrations.CreateModel(
            name='DataSize',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('kind', models.TextField()),
                ('bytes', models.PositiveBigIntegerField()),
                ('objects_count', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('is_whole', models.BooleanField(db_default=True, default=True)),
            ],
            options={
                'db_table': 'data_sizes',
                'constraints': [models.UniqueConstraint(fields=('day', 'kind'), name='data_sizes_once_a_day')],
            },
        ),
        migrations.CreateModel(
            name='DiskUse',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('host', models.TextField(blank=True, db_default='', default='')),
                ('disk', models.TextField()),
                ('used_bytes', models.PositiveBigIntegerField()),
                ('total_bytes', models.PositiveBigIntegerField(null=True)),
                ('measured_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'db_table': 'disk_uses',
                'constraints': [models.UniqueConstraint(fields=('day', 'host', 'disk'), name='disk_uses_once_a_day')],
            },
        ),
    ]
