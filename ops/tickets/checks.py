"""What stops the start, and what `check --deploy` must find beside the constraints: the triggers history rests on."""

from typing import Final

from django.conf import settings

from dpp_project import env
from dpp_project.checks import require_trigger
from ops.tickets.states import RequestType

TRIGGERS: Final = (
    ("tickets", "tickets_step_is_legal"),
    ("ticket_results", "ticket_results_are_append_only"),
    ("emergency_switches", "emergency_switches_are_append_only"),
)

for _table, _name in TRIGGERS:
    require_trigger(table=_table, name=_name)


def refuse_unknown_types() -> None:
    """A type that is mistyped would be reaped as if nobody had excluded it."""
    known = set(RequestType)
    if not known.issuperset(settings.TICKET_REAPER_EXCLUDED_TYPES):
        env.refuse_environment("DPP_TICKET_REAPER_EXCLUDED_TYPES", f"each must be one of {', '.join(RequestType)}")
