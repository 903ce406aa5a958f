"""How many runs of a tenant may be at work at once."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0011_share_weight")]

    operations = [
        migrations.AddField(
            "tenant",
            "most_at_work",
            models.SmallIntegerField(
                "most runs at work",
                blank=True,
                help_text="So many of its runs are at work at once; the others wait."
                " Empty: as many as there are workers for.",
                null=True,
            ),
        ),
        migrations.AddConstraint(
            "tenant",
            models.CheckConstraint(
                condition=models.Q(("most_at_work__isnull", True), ("most_at_work__range", (1, 10_000)), _connector="OR"),
                name="tenants_most_at_work_range",
            ),
        ),
    ]
