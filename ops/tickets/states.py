"""What a ticket may be, and what may be asked for by one. Pure."""

from enum import StrEnum
from typing import Final


class TicketStatus(StrEnum):
    OPEN = "OPEN"
    IN_PROGRESS = "IN_PROGRESS"
    DONE = "DONE"
    FAILED = "FAILED"


ENDED: Final = (TicketStatus.DONE, TicketStatus.FAILED)


class RequestType(StrEnum):
    EXECUTION_ENABLE = "EXECUTION_ENABLE"
    EXECUTION_DISABLE = "EXECUTION_DISABLE"
    BUDGET_TOPUP = "BUDGET_TOPUP"
    BUDGET_ADJUST = "BUDGET_ADJUST"
    BUDGET_REBUILD = "BUDGET_REBUILD"
    KEY_REVOKE = "KEY_REVOKE"
    DLQ_REDRIVE = "DLQ_REDRIVE"
    RUN_CANCEL = "RUN_CANCEL"
    DISPUTE_REFUND = "DISPUTE_REFUND"
