"""Failed sign-ins of the last minutes are counted at each attempt: an index of those alone."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("audit", "0002_append_only")]

    operations = [
        AddIndexConcurrently(
            model_name="auditentry",
            index=models.Index(
                condition=models.Q(("act", "sign-in failed")), fields=["at"], name="idx_audit_failed_sign_ins"
            ),
        ),
    ]
