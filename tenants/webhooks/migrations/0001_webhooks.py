"""Endpoints of tenants, their secrets, and messages on their way to them."""
import django.contrib.postgres.fields
import django.contrib.postgres.functions
import django.db.models.deletion
import django.db.models.functions.text
import django.db.models.lookups
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('tenants', '0005_scopes_of_events'),
    ]

    operations = [
        migrations.CreateModel(
            name='WebhookEndpoint',
            fields=[
                ('endpoint_id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('url', models.TextField()),
                ('events', django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
                ('status', models.TextField(choices=[('ENABLED', 'Enabled'), ('PAUSED', 'Paused'), ('DISABLED', 'Disabled')], db_default='ENABLED', default='ENABLED')),
                ('reason', models.TextField(blank=True, db_default='', default='')),
                ('idempotency_key', models.TextField(editable=False, null=True)),
                ('asked_for', models.JSONField(default=dict, editable=False)),
                ('created_at', models.DateTimeField(db_default=django.contrib.postgres.functions.TransactionNow(), editable=False)),
                ('updated_at', models.DateTimeField(db_default=django.contrib.postgres.functions.TransactionNow(), editable=False)),
                ('deleted_at', models.DateTimeField(editable=False, null=True)),
                ('consecutive_failures', models.PositiveIntegerField(db_default=0, default=0, editable=False)),
                ('failing_since', models.DateTimeField(editable=False, null=True)),
                ('failed_again_at', models.DateTimeField(editable=False, null=True)),
                ('paused_until', models.DateTimeField(editable=False, null=True)),
                ('last_success_at', models.DateTimeField(editable=False, null=True)),
                ('slow_at', models.DateTimeField(editable=False, null=True)),
                ('tenant', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='webhook_endpoints', to='tenants.tenant')),
            ],
            options={
                'db_table': 'webhook_endpoint',
                'ordering': ['-created_at', '-endpoint_id'],
            },
        ),
        migrations.CreateModel(
            name='WebhookMessage',
            fields=[
                ('message_id', models.UUIDField(db_default=models.Func(output_field=models.UUIDField(), template="(encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid)"), editable=False, primary_key=True, serialize=False)),
                ('tenant_id', models.TextField()),
                ('event', models.TextField()),
                ('key', models.TextField()),
                ('payload', models.JSONField()),
                ('at', models.DateTimeField(db_default=django.contrib.postgres.functions.TransactionNow())),
                ('fanned_out_at', models.DateTimeField(null=True)),
            ],
            options={
                'db_table': 'webhook_message',
                'ordering': ['-message_id'],
                'indexes': [models.Index(condition=models.Q(('fanned_out_at__isnull', True)), fields=['tenant_id', 'at'], name='idx_webhook_message_new'), models.Index(fields=['at'], name='idx_webhook_message_age')],
                'constraints': [models.UniqueConstraint(fields=('key',), name='webhook_message_key_unique')],
            },
        ),
        migrations.CreateModel(
            name='WebhookDelivery',
            fields=[
                ('delivery_id', models.UUIDField(db_default=models.Func(output_field=models.UUIDField(), template="(encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid)"), editable=False, primary_key=True, serialize=False)),
                ('status', models.TextField(choices=[('PENDING', 'Pending'), ('HELD', 'Held'), ('DELIVERED', 'Delivered'), ('FAILED', 'Failed')])),
                ('attempts', models.PositiveIntegerField(db_default=0, default=0)),
                ('next_attempt_at', models.DateTimeField(null=True)),
                ('lease_token', models.UUIDField(null=True)),
                ('lease_until', models.DateTimeField(null=True)),
                ('reason', models.TextField(db_default='', default='')),
                ('created_at', models.DateTimeField(db_default=django.contrib.postgres.functions.TransactionNow())),
                ('ended_at', models.DateTimeField(null=True)),
                ('endpoint', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='deliveries', to='webhooks.webhookendpoint')),
                ('message', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='deliveries', to='webhooks.webhookmessage')),
            ],
            options={
                'verbose_name_plural': 'webhook deliveries',
                'db_table': 'webhook_delivery',
                'ordering': ['-created_at', '-delivery_id'],
            },
        ),
        migrations.CreateModel(
            name='WebhookSecret',
            fields=[
                ('secret_id', models.BigAutoField(primary_key=True, serialize=False)),
                ('ciphertext', models.BinaryField()),
                ('created_at', models.DateTimeField(db_default=django.contrib.postgres.functions.TransactionNow(), editable=False)),
                ('expires_at', models.DateTimeField(null=True)),
                ('endpoint', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='secrets', to='webhooks.webhookendpoint')),
            ],
            options={
                'db_table': 'webhook_secret',
                'ordering': ['-pk'],
            },
        ),
        migrations.CreateModel(
            name='WebhookAttempt',
            fields=[
                ('attempt_id', models.BigAutoField(primary_key=True, serialize=False)),
                ('at', models.DateTimeField(db_default=django.contrib.postgres.functions.TransactionNow())),
                ('status_code', models.PositiveSmallIntegerField(null=True)),
                ('ms', models.PositiveIntegerField()),
                ('error', models.TextField(db_default='', default='')),
                ('delivery', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='tries', to='webhooks.webhookdelivery')),
            ],
            options={
                'db_table': 'webhook_attempt',
                'ordering': ['-attempt_id'],
                'constraints': [models.CheckConstraint(condition=models.Q(('status_code__isnull', False), models.Q(('error', ''), _negated=True), _connector='OR'), name='webhook_attempt_came_to_something')],
            },
        ),
        migrations.AddIndex(
            model_name='webhookendpoint',
            index=models.Index(condition=models.Q(('deleted_at__isnull', True)), fields=['tenant'], name='idx_webhook_endpoint_tenant'),
        ),
        migrations.AddIndex(
            model_name='webhookendpoint',
            index=models.Index(condition=models.Q(('deleted_at__isnull', True), ('failing_since__isnull', False)), fields=['failing_since'], name='idx_webhook_endpoint_failing'),
        ),
        migrations.AddConstraint(
            model_name='webhookendpoint',
            constraint=models.UniqueConstraint(condition=models.Q(('idempotency_key__isnull', False)), fields=('tenant', 'idempotency_key'), name='webhook_endpoint_idempotency_key_unique'),
        ),
        migrations.AddConstraint(
            model_name='webhookendpoint',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['ENABLED', 'PAUSED', 'DISABLED'])), name='webhook_endpoint_status_known'),
        ),
        migrations.AddConstraint(
            model_name='webhookendpoint',
            constraint=models.CheckConstraint(condition=models.Q(('url__regex', '^https://[!-~]+$')), name='webhook_endpoint_url_https'),
        ),
        migrations.AddConstraint(
            model_name='webhookendpoint',
            constraint=models.CheckConstraint(condition=django.db.models.lookups.LessThanOrEqual(django.db.models.functions.text.Length('url'), 2048), name='webhook_endpoint_url_bounded'),
        ),
        migrations.AddConstraint(
            model_name='webhookendpoint',
            constraint=models.CheckConstraint(condition=models.Q(('events__len__gt', 0), ('events__contained_by', ['budget.low', 'endpoint.disabled', 'run.completed', 'run.failed', 'run.refunded', 'run.upheld'])), name='webhook_endpoint_events_known'),
        ),
        migrations.AddConstraint(
            model_name='webhookendpoint',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('consecutive_failures', 0), ('failing_since__isnull', True)), models.Q(('consecutive_failures__gt', 0), ('failing_since__isnull', False)), _connector='OR'), name='webhook_endpoint_failing_agrees'),
        ),
        migrations.AddConstraint(
            model_name='webhookendpoint',
            constraint=models.CheckConstraint(condition=models.Q(('failed_again_at__isnull', True), ('failed_again_at__gte', models.F('failing_since')), _connector='OR'), name='webhook_endpoint_failed_again_later'),
        ),
        migrations.AddIndex(
            model_name='webhookdelivery',
            index=models.Index(condition=models.Q(('status', 'PENDING')), fields=['endpoint', 'next_attempt_at'], name='idx_webhook_delivery_due'),
        ),
        migrations.AddIndex(
            model_name='webhookdelivery',
            index=models.Index(condition=models.Q(('lease_token__isnull', False)), fields=['endpoint', 'lease_until'], name='idx_webhook_delivery_leased'),
        ),
        migrations.AddIndex(
            model_name='webhookdelivery',
            index=models.Index(condition=models.Q(('status', 'HELD')), fields=['endpoint'], name='idx_webhook_delivery_held'),
        ),
        migrations.AddIndex(
            model_name='webhookdelivery',
            index=models.Index(condition=models.Q(('status', 'FAILED')), fields=['endpoint', '-created_at', '-delivery_id'], name='idx_webhook_delivery_failed'),
        ),
        migrations.AddIndex(
            model_name='webhookdelivery',
            index=models.Index(fields=['endpoint', '-created_at', '-delivery_id'], name='idx_webhook_delivery_newest'),
        ),
        migrations.AddIndex(
            model_name='webhookdelivery',
            index=models.Index(fields=['created_at'], name='idx_webhook_delivery_age'),
        ),
        migrations.AddConstraint(
            model_name='webhookdelivery',
            constraint=models.UniqueConstraint(fields=('message', 'endpoint'), name='webhook_delivery_once'),
        ),
        migrations.AddConstraint(
            model_name='webhookdelivery',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['PENDING', 'HELD', 'DELIVERED', 'FAILED'])), name='webhook_delivery_status_known'),
        ),
        migrations.AddConstraint(
            model_name='webhookdelivery',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('next_attempt_at__isnull', False), ('status', 'PENDING')), models.Q(models.Q(('status', 'PENDING'), _negated=True), ('next_attempt_at__isnull', True)), _connector='OR'), name='webhook_delivery_pending_is_due'),
        ),
        migrations.AddConstraint(
            model_name='webhookdelivery',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('ended_at__isnull', True), ('status__in', ['PENDING', 'HELD'])), models.Q(('ended_at__isnull', False), ('status__in', ['DELIVERED', 'FAILED'])), _connector='OR'), name='webhook_delivery_end_has_a_time'),
        ),
        migrations.AddConstraint(
            model_name='webhookdelivery',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('lease_token__isnull', True), ('lease_until__isnull', True)), models.Q(('lease_token__isnull', False), ('lease_until__isnull', False)), _connector='OR'), name='webhook_delivery_lease_whole'),
        ),
        migrations.AddConstraint(
            model_name='webhooksecret',
            constraint=models.UniqueConstraint(condition=models.Q(('expires_at__isnull', True)), fields=('endpoint',), name='webhook_secret_one_in_use'),
        ),
        migrations.AddConstraint(
            model_name='webhooksecret',
            constraint=models.UniqueConstraint(condition=models.Q(('expires_at__isnull', False)), fields=('endpoint',), name='webhook_secret_one_ends'),
        ),
    ]
