"""How large a tenant's share of the workers is beside the others whose runs wait."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0010_automations_enabled")]

    operations = [
        migrations.AddField(
            "tenant",
            "share_weight",
            models.SmallIntegerField(
                blank=True,
                db_default=1,
                default=1,
                help_text="Beside others whose runs wait it has so many times the share of a tenant of weight 1.",
            ),
        ),
        migrations.AddConstraint(
            "tenant",
            models.CheckConstraint(
                condition=models.Q(("share_weight__range", (1, 100))), name="tenants_share_weight_range"
            ),
        ),
    ]
