"""New runs of a tenant can be turned off while its keys stay valid."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0002_operator_tenant")]

    operations = [
        migrations.AddField(
            model_name="tenant",
            name="submits_enabled",
            field=models.BooleanField(db_default=True, default=True),
        ),
    ]
