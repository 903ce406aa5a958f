"""Failed sign-ins of the last minutes are counted at each attempt: an index of those alone."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("audit", "0002_append_only")]

    operations = [
        # One that was cut off stands invalid, and is in the way of the next try.
        migrations.RunSQL("DROP INDEX CONCURRENTLY IF EXISTS idx_audit_failed_sign_ins", migrations.RunSQL.noop),
        AddIndexConcurrently(
            model_name="auditentry",
            index=models.Index(
                condition=models.Q(("act", "sign-in failed")), fields=["at"], name="idx_audit_failed_sign_ins"
            ),
        ),
    ]
