"""What `check --deploy` must find beside the constraints: the triggers that a ticket's history rests on."""

from typing import Final

from dpp_project.checks import require_trigger

TRIGGERS: Final = (
    ("tickets", "tickets_step_is_legal"),
    ("ticket_results", "ticket_results_are_append_only"),
    ("emergency_switches", "emergency_switches_are_append_only"),
)

for _table, _name in TRIGGERS:
    require_trigger(table=_table, name=_name)
