"""Which daily sums were written with the days of spending: all that stand, since what came before them has no date."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('budget', '0006_spend_day_checked'),
    ]

    operations = [
        # True for the rows that stand, False for those that a process of an older release writes from now on.
        migrations.AddField(
            model_name='balancesnapshot',
            name='has_spend_days',
            field=models.BooleanField(default=False, db_default=True),
        ),
        migrations.AlterField(
            model_name='balancesnapshot',
            name='has_spend_days',
            field=models.BooleanField(default=False, db_default=False),
        ),
    ]
