"""What `check --deploy` must find beside the constraints: the triggers that terminal statuses and history rest on."""

from typing import Final

from dpp_project.checks import require_trigger

TRIGGERS: Final = (
    ("auth_error", "auth_error_step_is_legal"),
    ("auth_error_decision", "auth_error_decision_is_kept"),
)

for _table, _name in TRIGGERS:
    require_trigger(table=_table, name=_name)
