"""Of an attempt: whether its run may stand already, and since when its submits are refused by what passes by itself."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("automations", "0003_held_events")]

    operations = [
        migrations.AddField(
            model_name="automationattempt",
            name="unavailable_since",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="automationattempt",
            name="unclear",
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
