"""What a webhook can tell. The names are a promise to receivers: a new one is added, none is ever changed."""

from enum import StrEnum
from typing import Final


class EventName(StrEnum):
    RUN_COMPLETED = "run.completed"
    RUN_FAILED = "run.failed"
    RUN_REFUNDED = "run.refunded"
    RUN_UPHELD = "run.upheld"
    BUDGET_LOW = "budget.low"
    CAP_REACHED = "cap.reached"
    ENDPOINT_DISABLED = "endpoint.disabled"
    ENDPOINT_TEST = "endpoint.test"


SUBSCRIBABLE: Final = tuple(one for one in EventName if one is not EventName.ENDPOINT_TEST)
"""What an endpoint may ask for; a test comes only to the endpoint it was asked for at."""
