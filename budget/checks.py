"""What `check --deploy` must find beside the constraints: the triggers that the ledger's promises rest on."""

from typing import Final

from dpp_project.checks import require_trigger

TRIGGERS: Final = (
    ("ledger_entries", "ledger_entries_append_only"),
    ("ledger_entries", "ledger_entries_never_emptied"),
    ("ledger_entries", "ledger_entries_after_the_snapshot"),
    ("balance_snapshots", "balance_snapshots_never_change"),
    ("balance_snapshots", "balance_snapshots_stay"),
    ("balance_snapshots", "balance_snapshots_are_sums"),
)

for _table, _name in TRIGGERS:
    require_trigger(table=_table, name=_name)
