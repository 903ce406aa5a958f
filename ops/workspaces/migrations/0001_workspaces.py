"""Workspaces, their drivers, volumes, archives, events, and by which request each was made."""

import django.contrib.postgres.functions
import django.db.models.deletion
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('tenants', '0008_scopes_of_workspaces'),
    ]

    operations = [
        migrations.CreateModel(
            name='Workspace',
            fields=[
                ('workspace_id', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_default=django.contrib.postgres.functions.TransactionNow(), editable=False)),
                ('name', models.TextField()),
                ('spec', models.JSONField(default=dict)),
                ('generation', models.BigIntegerField(db_default=1, default=1)),
                ('desired_state', models.TextField(choices=[('RUNNING', 'RUNNING'), ('STANDBY', 'STANDBY'), ('ARCHIVED', 'ARCHIVED'), ('DELETED', 'DELETED')], default='RUNNING')),
                ('standby_ttl_seconds', models.PositiveIntegerField(null=True)),
                ('archive_ttl_seconds', models.PositiveIntegerField(null=True)),
                ('delete_requested_at', models.DateTimeField(null=True)),
                ('discard', models.BooleanField(db_default=False, default=False)),
                ('recover_generation', models.BigIntegerField(db_default=0, default=0)),
                ('recover_from', models.TextField(null=True)),
                ('conditions', models.JSONField(db_default={}, default=dict)),
                ('phase', models.TextField(choices=[('DELETED', 'DELETED'), ('ERROR', 'ERROR'), ('RUNNING', 'RUNNING'), ('STANDBY', 'STANDBY'), ('ARCHIVED', 'ARCHIVED'), ('PENDING', 'PENDING')], db_default='PENDING', default='PENDING')),
                ('observed_at', models.DateTimeField(null=True)),
                ('observed_rev', models.BigIntegerField(db_default=-1, default=-1)),
                ('observed_generation', models.BigIntegerField(db_default=0, default=0)),
                ('driver_id', models.TextField(null=True)),
                ('operation', models.TextField(choices=[('NONE', 'NONE'), ('PROVISIONING', 'PROVISIONING'), ('RESTORING', 'RESTORING'), ('STARTING', 'STARTING'), ('STOPPING', 'STOPPING'), ('ARCHIVING', 'ARCHIVING'), ('DELETING', 'DELETING')], db_default='NONE', default='NONE')),
                ('op_id', models.UUIDField(null=True)),
                ('op_attempt', models.PositiveIntegerField(db_default=0, default=0)),
                ('op_step', models.TextField(blank=True, db_default='', default='')),
                ('rev', models.BigIntegerField(db_default=0, default=0)),
                ('op_started_at', models.DateTimeField(null=True)),
                ('op_lease_until', models.DateTimeField(null=True)),
                ('op_progress_bytes', models.BigIntegerField(db_default=0, default=0)),
                ('archive_key', models.TextField(null=True)),
                ('home_ctx', models.JSONField(db_default={}, default=dict)),
                ('error_count', models.PositiveIntegerField(db_default=0, default=0)),
                ('error_info', models.JSONField(null=True)),
                ('reconcile_failure_count', models.PositiveIntegerField(db_default=0, default=0)),
                ('next_reconcile_at', models.DateTimeField(null=True)),
                ('recovered_generation', models.BigIntegerField(db_default=0, default=0)),
                ('deleted_at', models.DateTimeField(null=True)),
                ('purged_at', models.DateTimeField(null=True)),
                ('tenant', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='tenants.tenant')),
            ],
            options={
                'db_table': 'workspaces',
                'ordering': ['-created_at', '-workspace_id'],
            },
        ),
        migrations.CreateModel(
            name='WorkspaceDriver',
            fields=[
                ('driver_id', models.TextField(primary_key=True, serialize=False)),
                ('kind', models.TextField()),
                ('sentinel', models.UUIDField(default=uuid.uuid4)),
                ('sentinel_placed_at', models.DateTimeField(null=True)),
                ('listed_at', models.DateTimeField(null=True)),
                ('frozen_at', models.DateTimeField(null=True)),
                ('frozen_reason', models.TextField(blank=True, db_default='', default='')),
                ('created_at', models.DateTimeField(db_default=django.contrib.postgres.functions.TransactionNow(), editable=False)),
                ('address', models.TextField(blank=True, db_default='', default='')),
            ],
            options={
                'db_table': 'workspace_drivers',
            },
        ),
        migrations.CreateModel(
            name='WorkspaceAccess',
            fields=[
                ('workspace', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='access', serialize=False, to='workspaces.workspace')),
                ('last_access_at', models.DateTimeField(db_default=django.contrib.postgres.functions.TransactionNow())),
            ],
            options={
                'db_table': 'workspace_access',
            },
        ),
        migrations.CreateModel(
            name='WorkspaceArchive',
            fields=[
                ('archive_key', models.TextField(primary_key=True, serialize=False)),
                ('op_id', models.UUIDField()),
                ('epoch', models.PositiveIntegerField(null=True)),
                ('token', models.TextField()),
                ('state', models.TextField(choices=[('UPLOADING', 'UPLOADING'), ('VERIFIED', 'VERIFIED'), ('SUPERSEDED', 'SUPERSEDED'), ('QUARANTINED', 'QUARANTINED'), ('DELETED', 'DELETED')], default='UPLOADING')),
                ('upload_id', models.TextField(null=True)),
                ('object_bytes', models.BigIntegerField(null=True)),
                ('tar_bytes', models.BigIntegerField(null=True)),
                ('members', models.BigIntegerField(null=True)),
                ('sha256', models.TextField(null=True)),
                ('pinned_by', models.UUIDField(null=True)),
                ('created_at', models.DateTimeField(db_default=django.contrib.postgres.functions.TransactionNow(), editable=False)),
                ('verified_at', models.DateTimeField(null=True)),
                ('superseded_at', models.DateTimeField(null=True)),
                ('deleted_at', models.DateTimeField(null=True)),
                ('scrubbed_at', models.DateTimeField(null=True)),
                ('workspace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='archives', to='workspaces.workspace')),
            ],
            options={
                'db_table': 'workspace_archives',
            },
        ),
        migrations.CreateModel(
            name='WorkspaceEvent',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('at', models.DateTimeField(db_default=django.contrib.postgres.functions.TransactionNow(), editable=False)),
                ('actor', models.TextField()),
                ('kind', models.TextField()),
                ('detail', models.JSONField(default=dict)),
                ('workspace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='events', to='workspaces.workspace')),
            ],
            options={
                'db_table': 'workspace_events',
            },
        ),
        migrations.CreateModel(
            name='WorkspaceVolume',
            fields=[
                ('volume_name', models.TextField(primary_key=True, serialize=False)),
                ('driver_id', models.TextField()),
                ('op_id', models.UUIDField()),
                ('attempt', models.PositiveIntegerField()),
                ('epoch', models.PositiveIntegerField()),
                ('state', models.TextField(choices=[('FILLING', 'FILLING'), ('LIVE', 'LIVE'), ('DOOMED', 'DOOMED'), ('GONE', 'GONE')], default='FILLING')),
                ('filled_from', models.TextField(null=True)),
                ('created_at', models.DateTimeField(db_default=django.contrib.postgres.functions.TransactionNow(), editable=False)),
                ('changed_at', models.DateTimeField(db_default=django.contrib.postgres.functions.TransactionNow())),
                ('workspace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='volumes', to='workspaces.workspace')),
                ('measured_at', models.DateTimeField(null=True)),
                ('used_bytes', models.BigIntegerField(null=True)),
                ('starts', models.PositiveIntegerField(db_default=0, default=0, null=True)),
            ],
            options={
                'db_table': 'workspace_volumes',
            },
        ),
        migrations.CreateModel(
            name='WorkspaceCreation',
            fields=[
                ('workspace', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='creation', serialize=False, to='workspaces.workspace')),
                ('idempotency_key', models.TextField()),
                ('asked_sha256', models.TextField()),
                ('tenant', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='tenants.tenant')),
            ],
            options={
                'db_table': 'workspace_creations',
                'constraints': [models.UniqueConstraint(fields=('tenant', 'idempotency_key'), name='workspace_creations_key_unique')],
            },
        ),
        migrations.AddIndex(
            model_name='workspace',
            index=models.Index(fields=['tenant', '-workspace_id'], name='idx_workspaces_tenant'),
        ),
        migrations.AddIndex(
            model_name='workspace',
            index=models.Index(fields=['driver_id', 'observed_at'], name='idx_workspaces_looked_at'),
        ),
        migrations.AddIndex(
            model_name='workspace',
            index=models.Index(condition=models.Q(('operation', 'NONE'), _negated=True), fields=['driver_id', 'op_lease_until'], name='idx_workspaces_at_work'),
        ),
        migrations.AddConstraint(
            model_name='workspace',
            constraint=models.UniqueConstraint(condition=models.Q(('delete_requested_at__isnull', True)), fields=('tenant', 'name'), name='workspaces_name_unique'),
        ),
        migrations.AddConstraint(
            model_name='workspace',
            constraint=models.CheckConstraint(condition=models.Q(('desired_state__in', ['RUNNING', 'STANDBY', 'ARCHIVED', 'DELETED'])), name='workspaces_desired_state_known'),
        ),
        migrations.AddConstraint(
            model_name='workspace',
            constraint=models.CheckConstraint(condition=models.Q(('phase__in', ['DELETED', 'ERROR', 'RUNNING', 'STANDBY', 'ARCHIVED', 'PENDING'])), name='workspaces_phase_known'),
        ),
        migrations.AddConstraint(
            model_name='workspace',
            constraint=models.CheckConstraint(condition=models.Q(('operation__in', ['NONE', 'PROVISIONING', 'RESTORING', 'STARTING', 'STOPPING', 'ARCHIVING', 'DELETING'])), name='workspaces_operation_known'),
        ),
        migrations.AddConstraint(
            model_name='workspace',
            constraint=models.CheckConstraint(condition=models.Q(('operation', 'NONE'), models.Q(('op_attempt__gte', 1), ('op_id__isnull', False), ('op_lease_until__isnull', False), ('op_started_at__isnull', False)), _connector='OR'), name='workspaces_operation_has_a_lease'),
        ),
        migrations.AddConstraint(
            model_name='workspace',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('delete_requested_at__isnull', False), ('desired_state', 'DELETED')), models.Q(models.Q(('desired_state', 'DELETED'), _negated=True), ('delete_requested_at__isnull', True), ('discard', False)), _connector='OR'), name='workspaces_deletion_is_asked_for'),
        ),
        migrations.AddConstraint(
            model_name='workspace',
            constraint=models.CheckConstraint(condition=models.Q(('purged_at__isnull', True), ('deleted_at__isnull', False), _connector='OR'), name='workspaces_purged_is_deleted'),
        ),
        migrations.AddIndex(
            model_name='workspacearchive',
            index=models.Index(fields=['workspace', '-created_at'], name='idx_workspace_archives_newest'),
        ),
        migrations.AddIndex(
            model_name='workspacearchive',
            index=models.Index(condition=models.Q(('state', 'SUPERSEDED')), fields=['superseded_at'], name='idx_workspace_archives_gc'),
        ),
        migrations.AddConstraint(
            model_name='workspacearchive',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['UPLOADING', 'VERIFIED', 'SUPERSEDED', 'QUARANTINED', 'DELETED'])), name='workspace_archives_state_known'),
        ),
        migrations.AddConstraint(
            model_name='workspacearchive',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('state__in', ['VERIFIED', 'SUPERSEDED']), _negated=True), models.Q(('object_bytes__isnull', False), ('sha256__isnull', False), ('verified_at__isnull', False)), _connector='OR'), name='workspace_archives_verified_whole'),
        ),
        migrations.AddConstraint(
            model_name='workspacearchive',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('state', 'SUPERSEDED'), _negated=True), ('superseded_at__isnull', False), _connector='OR'), name='workspace_archives_superseded_when'),
        ),
        migrations.AddIndex(
            model_name='workspaceevent',
            index=models.Index(fields=['workspace', '-id'], name='idx_workspace_events_newest'),
        ),
        migrations.AddIndex(
            model_name='workspacevolume',
            index=models.Index(condition=models.Q(('state', 'GONE'), _negated=True), fields=['driver_id'], name='idx_workspace_volumes_driver'),
        ),
        migrations.AddConstraint(
            model_name='workspacevolume',
            constraint=models.UniqueConstraint(fields=('workspace', 'epoch'), name='workspace_volumes_epoch_unique'),
        ),
        migrations.AddConstraint(
            model_name='workspacevolume',
            constraint=models.UniqueConstraint(condition=models.Q(('state', 'LIVE')), fields=('workspace',), name='workspace_volumes_one_live'),
        ),
        migrations.AddConstraint(
            model_name='workspacevolume',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['FILLING', 'LIVE', 'DOOMED', 'GONE'])), name='workspace_volumes_state_known'),
        ),
    ]
