"""A job's lease: the heartbeat of its open report row."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0001_job_reports"),
    ]

    operations = [
        migrations.AddField(model_name="jobreport", name="beat_at", field=models.DateTimeField(null=True)),
    ]
