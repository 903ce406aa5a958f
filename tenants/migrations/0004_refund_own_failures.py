"""What a failure of ours cost can be given back, tenant by tenant."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0003_submits_enabled")]

    operations = [
        migrations.AddField(
            model_name="tenant",
            name="refund_own_failures",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="Give back what a run cost that failed on our side: its worker or its result was lost.",
            ),
        ),
    ]
