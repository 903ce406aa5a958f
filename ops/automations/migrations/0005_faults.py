"""Of events and tasks: how often each failed by a fault of the platform's own, one after the other."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("automations", "0004_attempts_in_doubt")]

    operations = [
        migrations.AddField(
            model_name="automationevent",
            name="faults",
            field=models.PositiveSmallIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="automationtask",
            name="faults",
            field=models.PositiveSmallIntegerField(db_default=0, default=0),
        ),
    ]
