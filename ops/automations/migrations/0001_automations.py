import django.contrib.postgres.functions
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='AutomationSource',
            fields=[
                ('source_id', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ('name', models.TextField(unique=True)),
                ('kind', models.TextField(choices=[('GITHUB', 'GITHUB'), ('JIRA', 'JIRA'), ('SCHEDULE', 'SCHEDULE'), ('HOOK', 'HOOK'), ('SLACK', 'SLACK')])),
                ('settings', models.JSONField(db_default={}, default=dict)),
                ('sealed_secrets', models.BinaryField(null=True)),
                ('enabled', models.BooleanField(db_default=True, default=True)),
                ('cursor', models.TextField(db_default='', default='')),
                ('etag', models.TextField(db_default='', default='')),
                ('state', models.JSONField(db_default={}, default=dict)),
                ('next_look_at', models.DateTimeField(db_default=django.contrib.postgres.functions.TransactionNow())),
                ('lease_owner', models.UUIDField(null=True)),
                ('lease_until', models.DateTimeField(null=True)),
                ('looked_at', models.DateTimeField(null=True)),
                ('failures', models.PositiveIntegerField(db_default=0, default=0)),
                ('last_error', models.TextField(db_default='', default='')),
                ('created_by', models.TextField()),
                ('created_at', models.DateTimeField(db_default=django.contrib.postgres.functions.TransactionNow(), editable=False)),
                ('version', models.BigIntegerField(db_default=0, default=0)),
            ],
            options={
                'db_table': 'automation_source',
                'ordering': ['name'],
                'indexes': [models.Index(condition=models.Q(('enabled', True)), fields=['next_look_at'], name='idx_automation_source_due')],
                'constraints': [models.CheckConstraint(condition=models.Q(('name__regex', '^[a-z0-9][a-z0-9_-]{0,63}$')), name='automation_source_name_form'), models.CheckConstraint(condition=models.Q(('kind__in', ['GITHUB', 'HOOK', 'JIRA', 'SCHEDULE', 'SLACK'])), name='automation_source_kind_known')],
            },
        ),
        migrations.CreateModel(
            name='AutomationRule',
            fields=[
                ('rule_id', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ('name', models.TextField()),
                ('position', models.PositiveIntegerField(db_default=100, default=100)),
                ('filter', models.TextField(blank=True, db_default='', default='')),
                ('tenant_id', models.TextField()),
                ('pack_type', models.TextField()),
                ('inputs', models.JSONField()),
                ('max_cost_usd_micros', models.BigIntegerField()),
                ('timebox_sec', models.PositiveIntegerField()),
                ('retries', models.PositiveSmallIntegerField(db_default=1, default=1)),
                ('runs_per_hour', models.PositiveIntegerField()),
                ('usd_per_day_micros', models.BigIntegerField()),
                ('thread_runs_per_hour', models.PositiveIntegerField(db_default=5, default=5)),
                ('workspace_id', models.UUIDField(blank=True, null=True)),
                ('context_file', models.TextField(blank=True, null=True)),
                ('notify_channel', models.TextField(blank=True, db_default='', default='')),
                ('notify_target', models.TextField(blank=True, db_default='', default='')),
                ('awaits_answers', models.BooleanField(db_default=False, default=False)),
                ('key_id', models.UUIDField(editable=False)),
                ('lineage_id', models.UUIDField(editable=False)),
                ('enabled', models.BooleanField(db_default=True, default=True)),
                ('created_by', models.TextField()),
                ('created_at', models.DateTimeField(db_default=django.contrib.postgres.functions.TransactionNow(), editable=False)),
                ('updated_at', models.DateTimeField(db_default=django.contrib.postgres.functions.TransactionNow(), editable=False)),
                ('ended_at', models.DateTimeField(null=True)),
                ('version', models.BigIntegerField(db_default=0, default=0)),
                ('source', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='rules', to='automations.automationsource')),
            ],
            options={
                'db_table': 'automation_rule',
                'ordering': ['position', 'rule_id'],
            },
        ),
        migrations.CreateModel(
            name='SeenEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('event_id', models.TextField()),
                ('at', models.DateTimeField(db_default=django.contrib.postgres.functions.TransactionNow(), editable=False)),
                ('outcome', models.TextField(choices=[('SUCCEEDED', 'SUCCEEDED'), ('FAILED', 'FAILED'), ('NO_RULE', 'NO_RULE'), ('OWN_ACTOR', 'OWN_ACTOR'), ('LOOP', 'LOOP')], null=True)),
                ('emissions', models.PositiveIntegerField(db_default=1, default=1)),
                ('source', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='automations.automationsource')),
            ],
            options={
                'db_table': 'seen_event',
            },
        ),
        migrations.CreateModel(
            name='AutomationEvent',
            fields=[
                ('event_pk', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ('event_id', models.TextField()),
                ('emission', models.PositiveIntegerField(db_default=1, default=1)),
                ('status', models.TextField(choices=[('PENDING', 'PENDING'), ('DISPATCHED', 'DISPATCHED'), ('COMPLETED', 'COMPLETED')], db_default='PENDING', default='PENDING')),
                ('outcome', models.TextField(choices=[('SUCCEEDED', 'SUCCEEDED'), ('FAILED', 'FAILED'), ('NO_RULE', 'NO_RULE'), ('OWN_ACTOR', 'OWN_ACTOR'), ('LOOP', 'LOOP')], null=True)),
                ('reason', models.TextField(db_default='', default='')),
                ('payload', models.JSONField()),
                ('thread', models.TextField(db_default='', default='')),
                ('actor', models.TextField(db_default='', default='')),
                ('occurred_at', models.DateTimeField()),
                ('seen_at', models.DateTimeField(db_default=django.contrib.postgres.functions.TransactionNow(), editable=False)),
                ('next_try_at', models.DateTimeField(db_default=django.contrib.postgres.functions.TransactionNow())),
                ('waits_for', models.TextField(db_default='', default='')),
                ('resumes_id', models.UUIDField(null=True)),
                ('dispatched_at', models.DateTimeField(null=True)),
                ('completed_at', models.DateTimeField(null=True)),
                ('version', models.BigIntegerField(db_default=0, default=0)),
                ('rule', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='automations.automationrule')),
                ('source', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='automations.automationsource')),
                ('faults', models.PositiveSmallIntegerField(db_default=0, default=0)),
            ],
            options={
                'db_table': 'automation_event',
                'ordering': ['-event_pk'],
            },
        ),
        migrations.CreateModel(
            name='AutomationTask',
            fields=[
                ('task_id', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ('number', models.TextField(unique=True)),
                ('tenant_id', models.TextField()),
                ('pack_type', models.TextField()),
                ('inputs', models.JSONField(null=True)),
                ('max_cost_usd_micros', models.BigIntegerField()),
                ('timebox_sec', models.PositiveIntegerField()),
                ('attempts_max', models.PositiveSmallIntegerField()),
                ('attempts', models.PositiveSmallIntegerField(db_default=0, default=0)),
                ('charged_usd_micros', models.BigIntegerField(db_default=0, default=0)),
                ('workspace_id', models.UUIDField(null=True)),
                ('context_file', models.TextField(null=True)),
                ('thread', models.TextField(db_default='', default='')),
                ('status', models.TextField(choices=[('PENDING', 'PENDING'), ('IN_PROGRESS', 'IN_PROGRESS'), ('COMPLETED', 'COMPLETED')], db_default='PENDING', default='PENDING')),
                ('outcome', models.TextField(choices=[('SUCCEEDED', 'SUCCEEDED'), ('FAILED', 'FAILED')], null=True)),
                ('reason', models.TextField(db_default='', default='')),
                ('next_try_at', models.DateTimeField(db_default=django.contrib.postgres.functions.TransactionNow())),
                ('waits_for', models.TextField(db_default='', default='')),
                ('created_at', models.DateTimeField(db_default=django.contrib.postgres.functions.TransactionNow(), editable=False)),
                ('started_at', models.DateTimeField(null=True)),
                ('completed_at', models.DateTimeField(null=True)),
                ('version', models.BigIntegerField(db_default=0, default=0)),
                ('event', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='task', to='automations.automationevent')),
                ('resumes', models.ForeignKey(db_constraint=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='resumed_by', to='automations.automationtask')),
                ('rule', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='tasks', to='automations.automationrule')),
                ('faults', models.PositiveSmallIntegerField(db_default=0, default=0)),
            ],
            options={
                'db_table': 'automation_task',
                'ordering': ['-task_id'],
            },
        ),
        migrations.CreateModel(
            name='AutomationAttempt',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('attempt', models.PositiveSmallIntegerField()),
                ('rule_id', models.UUIDField()),
                ('status', models.TextField(choices=[('OPEN', 'OPEN'), ('RUNNING', 'RUNNING'), ('SUCCEEDED', 'SUCCEEDED'), ('FAILED', 'FAILED'), ('REFUSED', 'REFUSED')], db_default='OPEN', default='OPEN')),
                ('reserved_usd_micros', models.BigIntegerField()),
                ('run_id', models.UUIDField(null=True)),
                ('charged_usd_micros', models.BigIntegerField(null=True)),
                ('reason', models.TextField(db_default='', default='')),
                ('began_at', models.DateTimeField(db_default=django.contrib.postgres.functions.TransactionNow(), editable=False)),
                ('lease_until', models.DateTimeField(null=True)),
                ('next_try_at', models.DateTimeField(db_default=django.contrib.postgres.functions.TransactionNow())),
                ('accepted_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('task', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='tries', to='automations.automationtask')),
                ('unavailable_since', models.DateTimeField(null=True)),
                ('unclear', models.BooleanField(db_default=False, default=False)),
            ],
            options={
                'db_table': 'automation_attempt',
                'ordering': ['task_id', 'attempt'],
                'indexes': [models.Index(condition=models.Q(('status', 'OPEN')), fields=['next_try_at'], name='idx_automation_attempt_open'), models.Index(condition=models.Q(('status', 'RUNNING')), fields=['run_id'], name='idx_automation_attempt_running'), models.Index(fields=['rule_id', '-began_at'], name='idx_automation_attempt_rule'), models.Index(fields=['rule_id', '-accepted_at'], name='idx_automation_attempt_bought')],
                'constraints': [models.UniqueConstraint(fields=('task', 'attempt'), name='automation_attempt_unique'), models.UniqueConstraint(fields=('run_id',), name='automation_attempt_one_run_each'), models.UniqueConstraint(condition=models.Q(('status__in', ['OPEN', 'RUNNING'])), fields=('task',), name='automation_attempt_one_at_a_time'), models.CheckConstraint(condition=models.Q(('status__in', ['FAILED', 'OPEN', 'REFUSED', 'RUNNING', 'SUCCEEDED'])), name='automation_attempt_status_known'), models.CheckConstraint(condition=models.Q(models.Q(('run_id__isnull', True), ('status__in', ['OPEN', 'REFUSED'])), models.Q(('run_id__isnull', False), ('status__in', ['RUNNING', 'SUCCEEDED', 'FAILED'])), _connector='OR'), name='automation_attempt_run_agrees')],
            },
        ),
        migrations.CreateModel(
            name='AutomationResult',
            fields=[
                ('task', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, primary_key=True, related_name='result', serialize=False, to='automations.automationtask')),
                ('rule_id', models.UUIDField()),
                ('thread', models.TextField(db_default='', default='')),
                ('run_id', models.UUIDField(null=True)),
                ('outcome', models.TextField(choices=[('SUCCEEDED', 'SUCCEEDED'), ('FAILED', 'FAILED')])),
                ('summary', models.TextField(db_default='', default='')),
                ('data', models.JSONField(null=True)),
                ('session_id', models.TextField(db_default='', default='')),
                ('session_log', models.JSONField(null=True)),
                ('created_at', models.DateTimeField(db_default=django.contrib.postgres.functions.TransactionNow(), editable=False)),
            ],
            options={
                'db_table': 'automation_result',
                'indexes': [models.Index(fields=['created_at'], name='idx_automation_result_age'), models.Index(fields=['rule_id', 'thread', '-created_at'], name='idx_automation_result_thread')],
            },
        ),
        migrations.CreateModel(
            name='AutomationMessage',
            fields=[
                ('message_id', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ('number', models.TextField(unique=True)),
                ('key', models.TextField(null=True, unique=True)),
                ('kind', models.TextField(choices=[('RESULT', 'RESULT'), ('QUESTION', 'QUESTION'), ('ALARM', 'ALARM'), ('REPORT', 'REPORT')])),
                ('channel', models.TextField(choices=[('slack', 'slack'), ('webhook', 'webhook')])),
                ('target', models.TextField()),
                ('thread', models.TextField(db_default='', default='')),
                ('body', models.TextField()),
                ('awaits_answer', models.BooleanField(db_default=False, default=False)),
                ('status', models.TextField(choices=[('PENDING', 'PENDING'), ('SENT', 'SENT'), ('FAILED', 'FAILED')], db_default='PENDING', default='PENDING')),
                ('attempts', models.PositiveIntegerField(db_default=0, default=0)),
                ('next_attempt_at', models.DateTimeField(db_default=django.contrib.postgres.functions.TransactionNow())),
                ('lease_owner', models.UUIDField(null=True)),
                ('lease_until', models.DateTimeField(null=True)),
                ('unclear', models.BooleanField(db_default=False, default=False)),
                ('external_id', models.TextField(db_default='', default='')),
                ('last_error', models.TextField(db_default='', default='')),
                ('created_at', models.DateTimeField(db_default=django.contrib.postgres.functions.TransactionNow(), editable=False)),
                ('ended_at', models.DateTimeField(null=True)),
                ('version', models.BigIntegerField(db_default=0, default=0)),
                ('task', models.ForeignKey(db_constraint=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='messages', to='automations.automationtask')),
                ('rule', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='automations.automationrule')),
            ],
            options={
                'db_table': 'automation_message',
                'ordering': ['-message_id'],
            },
        ),
        migrations.CreateModel(
            name='ThreadMapping',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('channel', models.TextField(choices=[('slack', 'slack'), ('webhook', 'webhook')])),
                ('target', models.TextField()),
                ('thread', models.TextField()),
                ('created_at', models.DateTimeField(db_default=django.contrib.postgres.functions.TransactionNow(), editable=False)),
                ('task', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='mappings', to='automations.automationtask')),
            ],
            options={
                'db_table': 'automation_thread_mapping',
            },
        ),
        migrations.CreateModel(
            name='AwaitedAnswer',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('channel', models.TextField(choices=[('slack', 'slack'), ('webhook', 'webhook')])),
                ('target', models.TextField()),
                ('thread', models.TextField()),
                ('created_at', models.DateTimeField(db_default=django.contrib.postgres.functions.TransactionNow(), editable=False)),
                ('task', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='awaited', to='automations.automationtask')),
            ],
            options={
                'db_table': 'automation_awaited_answer',
            },
        ),
        migrations.CreateModel(
            name='NumberOfDay',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.TextField()),
                ('day', models.DateField()),
                ('last', models.PositiveIntegerField()),
            ],
            options={
                'db_table': 'automation_number',
                'constraints': [models.UniqueConstraint(fields=('kind', 'day'), name='automation_number_unique')],
            },
        ),
        migrations.CreateModel(
            name='AutomationNotice',
            fields=[
                ('key', models.TextField(primary_key=True, serialize=False)),
                ('told_at', models.DateTimeField()),
            ],
            options={
                'db_table': 'automation_notice',
                'indexes': [models.Index(fields=['told_at'], name='idx_automation_notice_age')],
            },
        ),
        migrations.AddIndex(
            model_name='automationtask',
            index=models.Index(condition=models.Q(('status', 'COMPLETED'), _negated=True), fields=['next_try_at', 'task_id'], name='idx_automation_task_due'),
        ),
        migrations.AddIndex(
            model_name='automationtask',
            index=models.Index(condition=models.Q(('status', 'COMPLETED')), fields=['completed_at'], name='idx_automation_task_age'),
        ),
        migrations.AddIndex(
            model_name='automationtask',
            index=models.Index(fields=['rule', 'thread', '-task_id'], name='idx_automation_task_thread'),
        ),
        migrations.AddConstraint(
            model_name='automationtask',
            constraint=models.UniqueConstraint(condition=models.Q(('status', 'IN_PROGRESS'), ('workspace_id__isnull', False)), fields=('workspace_id',), name='automation_task_one_a_workspace'),
        ),
        migrations.AddConstraint(
            model_name='automationtask',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['COMPLETED', 'IN_PROGRESS', 'PENDING'])), name='automation_task_status_known'),
        ),
        migrations.AddConstraint(
            model_name='automationtask',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('completed_at__isnull', False), ('outcome__isnull', False), ('status', 'COMPLETED')), models.Q(models.Q(('status', 'COMPLETED'), _negated=True), ('completed_at__isnull', True), ('outcome__isnull', True)), _connector='OR'), name='automation_task_completed_has_an_outcome'),
        ),
        migrations.AddConstraint(
            model_name='automationtask',
            constraint=models.CheckConstraint(condition=models.Q(('attempts__lte', models.F('attempts_max'))), name='automation_task_attempts_bounded'),
        ),
        migrations.AddConstraint(
            model_name='automationtask',
            constraint=models.CheckConstraint(condition=models.Q(('charged_usd_micros__lte', models.F('max_cost_usd_micros'))), name='automation_task_ceiling_covers_all'),
        ),
        migrations.AddIndex(
            model_name='automationmessage',
            index=models.Index(condition=models.Q(('status', 'PENDING')), fields=['next_attempt_at', 'message_id'], name='idx_automation_message_due'),
        ),
        migrations.AddIndex(
            model_name='automationmessage',
            index=models.Index(condition=models.Q(('status', 'PENDING'), _negated=True), fields=['ended_at'], name='idx_automation_message_age'),
        ),
        migrations.AddConstraint(
            model_name='automationmessage',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['FAILED', 'PENDING', 'SENT'])), name='automation_message_status_known'),
        ),
        migrations.AddConstraint(
            model_name='automationmessage',
            constraint=models.CheckConstraint(condition=models.Q(('channel__in', ['slack', 'webhook'])), name='automation_message_channel_known'),
        ),
        migrations.AddConstraint(
            model_name='automationmessage',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ['ALARM', 'QUESTION', 'REPORT', 'RESULT'])), name='automation_message_kind_known'),
        ),
        migrations.AddConstraint(
            model_name='automationmessage',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('ended_at__isnull', True), ('status', 'PENDING')), models.Q(models.Q(('status', 'PENDING'), _negated=True), ('ended_at__isnull', False)), _connector='OR'), name='automation_message_ended_has_a_time'),
        ),
        migrations.AddConstraint(
            model_name='automationmessage',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('target', ''), _negated=True), models.Q(('body', ''), _negated=True)), name='automation_message_complete'),
        ),
        migrations.AddConstraint(
            model_name='automationrule',
            constraint=models.UniqueConstraint(condition=models.Q(('ended_at__isnull', True)), fields=('name',), name='automation_rule_name_unique'),
        ),
        migrations.AddConstraint(
            model_name='automationrule',
            constraint=models.CheckConstraint(condition=models.Q(('name__regex', '^[a-z0-9][a-z0-9_-]{0,63}$')), name='automation_rule_name_form'),
        ),
        migrations.AddConstraint(
            model_name='automationrule',
            constraint=models.CheckConstraint(condition=models.Q(('max_cost_usd_micros__gte', 1)), name='automation_rule_ceiling'),
        ),
        migrations.AddConstraint(
            model_name='automationrule',
            constraint=models.CheckConstraint(condition=models.Q(('usd_per_day_micros__gte', 0)), name='automation_rule_day_cap'),
        ),
        migrations.AddConstraint(
            model_name='automationrule',
            constraint=models.CheckConstraint(condition=models.Q(('runs_per_hour__gte', 1)), name='automation_rule_runs_per_hour'),
        ),
        migrations.AddConstraint(
            model_name='automationrule',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('notify_channel', ''), ('notify_target', '')), models.Q(('notify_channel__in', ['slack', 'webhook']), models.Q(('notify_target', ''), _negated=True)), _connector='OR'), name='automation_rule_notify'),
        ),
        migrations.AddIndex(
            model_name='automationevent',
            index=models.Index(condition=models.Q(('status', 'PENDING')), fields=['next_try_at', 'event_pk'], name='idx_automation_event_due'),
        ),
        migrations.AddIndex(
            model_name='automationevent',
            index=models.Index(condition=models.Q(('status', 'COMPLETED')), fields=['completed_at'], name='idx_automation_event_age'),
        ),
        migrations.AddIndex(
            model_name='automationevent',
            index=models.Index(fields=['rule', 'thread', '-dispatched_at'], name='idx_automation_event_thread'),
        ),
        migrations.AddIndex(
            model_name='automationevent',
            index=models.Index(fields=['source', '-event_pk'], name='idx_automation_event_source'),
        ),
        migrations.AddIndex(
            model_name='automationevent',
            index=models.Index(condition=models.Q(('status', 'PENDING'), ('waits_for', '')), fields=['source', 'next_try_at', 'event_pk'], name='idx_automation_event_new'),
        ),
        migrations.AddIndex(
            model_name='automationevent',
            index=models.Index(condition=models.Q(('status', 'PENDING'), models.Q(('waits_for', ''), _negated=True)), fields=['rule', 'event_pk'], name='idx_automation_event_held'),
        ),
        migrations.AddConstraint(
            model_name='automationevent',
            constraint=models.UniqueConstraint(fields=('source', 'event_id', 'emission'), name='automation_event_unique'),
        ),
        migrations.AddConstraint(
            model_name='automationevent',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['COMPLETED', 'DISPATCHED', 'PENDING'])), name='automation_event_status_known'),
        ),
        migrations.AddConstraint(
            model_name='automationevent',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('completed_at__isnull', False), ('outcome__isnull', False), ('status', 'COMPLETED')), models.Q(models.Q(('status', 'COMPLETED'), _negated=True), ('completed_at__isnull', True), ('outcome__isnull', True)), _connector='OR'), name='automation_event_completed_has_an_outcome'),
        ),
        migrations.AddConstraint(
            model_name='automationevent',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('status', 'DISPATCHED'), _negated=True), models.Q(('dispatched_at__isnull', False), ('rule__isnull', False)), _connector='OR'), name='automation_event_dispatched_has_a_rule'),
        ),
        migrations.AddIndex(
            model_name='awaitedanswer',
            index=models.Index(fields=['created_at'], name='idx_automation_awaited_age'),
        ),
        migrations.AddConstraint(
            model_name='awaitedanswer',
            constraint=models.UniqueConstraint(fields=('channel', 'target', 'thread'), name='automation_awaited_unique'),
        ),
        migrations.AddIndex(
            model_name='seenevent',
            index=models.Index(fields=['at'], name='idx_seen_event_age'),
        ),
        migrations.AddConstraint(
            model_name='seenevent',
            constraint=models.UniqueConstraint(fields=('source', 'event_id'), name='seen_event_unique'),
        ),
        migrations.AddConstraint(
            model_name='seenevent',
            constraint=models.CheckConstraint(condition=models.Q(('event_id', ''), _negated=True), name='seen_event_id_given'),
        ),
        migrations.AddIndex(
            model_name='threadmapping',
            index=models.Index(fields=['created_at'], name='idx_automation_mapping_age'),
        ),
        migrations.AddConstraint(
            model_name='threadmapping',
            constraint=models.UniqueConstraint(fields=('task', 'channel', 'target'), name='automation_mapping_unique'),
        ),
    ]
