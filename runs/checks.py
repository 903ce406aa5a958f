"""What `check --deploy` must find beside the constraints: the triggers that the run's promises rest on."""

from typing import Final

from dpp_project.checks import require_trigger

TRIGGERS: Final = (
    ("runs", "runs_step_is_legal"),
    ("runs", "runs_birth_is_recorded"),
    ("runs", "runs_step_is_recorded"),
    ("runs", "runs_delete_is_legal"),
    ("run_history", "run_history_is_append_only"),
    ("run_disputes", "run_disputes_are_append_only"),
)

for _table, _name in TRIGGERS:
    require_trigger(table=_table, name=_name)
