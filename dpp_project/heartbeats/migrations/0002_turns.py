"""When a process's loop was last seen to turn: one that lives and gets nothing done is found."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("heartbeats", "0001_process_heartbeats"),
    ]

    operations = [
        migrations.AddField(
            model_name="processheartbeat", name="turned_at", field=models.DateTimeField(null=True)
        ),
    ]
