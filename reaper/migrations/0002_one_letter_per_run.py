"""The letters of one run become one row. Rows that stand keep theirs: `of_run` is empty there."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("reaper", "0001_dead_letters")]

    operations = [
        migrations.AddField("deadletter", "of_run", models.UUIDField(null=True, editable=False)),
        migrations.AddField("deadletter", "letters", models.PositiveIntegerField(default=1, db_default=1)),
    ]
