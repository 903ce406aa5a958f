"""What a resume or a recovery lets go of is marked on the endpoint, until all of it has gone."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('webhooks', '0001_webhooks'),
    ]

    operations = [
        migrations.AddField(
            model_name='webhookendpoint',
            name='release_failed_until',
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name='webhookendpoint',
            name='release_since',
            field=models.DateTimeField(editable=False, null=True),
        ),
    ]
