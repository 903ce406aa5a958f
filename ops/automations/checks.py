"""What `check --deploy` must find beside the constraints: the triggers that one event, one task, one run rest on."""

from typing import Final

from dpp_project.checks import require_trigger

TRIGGERS: Final = (
    ("automation_event", "automation_event_step_is_legal"),
    ("automation_task", "automation_task_step_is_legal"),
    ("automation_attempt", "automation_attempt_step_is_legal"),
    ("automation_message", "automation_message_step_is_legal"),
)

for _table, _name in TRIGGERS:
    require_trigger(table=_table, name=_name)
