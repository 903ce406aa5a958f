"""Triggers on rows do not see TRUNCATE: the ledger is not emptied either, not by CASCADE from its tenants."""

from django.db import migrations

NEVER_EMPTIED = """
CREATE TRIGGER ledger_entries_never_emptied BEFORE TRUNCATE ON ledger_entries
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change()
"""


class Migration(migrations.Migration):
    dependencies = [("budget", "0009_corrections_of_a_run")]

    operations = [
        migrations.RunSQL([NEVER_EMPTIED], ["DROP TRIGGER ledger_entries_never_emptied ON ledger_entries"]),
    ]
