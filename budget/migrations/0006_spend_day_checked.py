"""The ledger's new constraint, looked up in the rows that stand without keeping anybody from writing more."""

from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("budget", "0005_spend_days")]

    operations = [ValidateConstraint(model_name="ledgerentry", name="ledger_entries_spend_day_of_a_run")]
