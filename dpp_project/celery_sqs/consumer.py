"""Celery's consumer and request, where their way with poison would lose it or stop the worker (DPP-38).

Celery acknowledges a message it cannot decode, which deletes it; logs what it could not read, which may be anything;
and raises a task's MemoryError again in the main process, which ends the worker. Here every message without a task to
run is rejected, named by its SQS id alone, and redriven to the dead-letter queue after its third receive.
"""

import logging
from typing import Any

from billiard.einfo import ExceptionInfo
from celery.worker.consumer import Consumer as CeleryConsumer
from celery.worker.request import Request as CeleryRequest
from celery.worker.state import task_ready

log = logging.getLogger("dpp.sqs")


class Consumer(CeleryConsumer):
    connection_errors: tuple[type[Exception], ...]

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        self._leave_to_redrive(message, "cannot be decoded", exc)

    def on_unknown_message(self, body: Any, message: Any) -> None:  # noqa: ARG002  never logged
        self._leave_to_redrive(message, "is not a task message")

    def on_unknown_task(self, body: Any, message: Any, exc: Exception) -> None:  # noqa: ARG002
        self._leave_to_redrive(message, "names an unknown task", exc)

    def on_invalid_task(self, body: Any, message: Any, exc: Exception) -> None:  # noqa: ARG002
        self._leave_to_redrive(message, "is not acceptable", exc)

    def _leave_to_redrive(self, message: Any, why: str, exc: Exception | None = None) -> None:
        received = (message.delivery_info or {}).get("sqs_message", {})
        receives = received.get("Attributes", {}).get("ApproximateReceiveCount")
        log.error(
            "message %s %s (receive %s), left to redrive: %s",
            received.get("MessageId"),
            why,
            receives,
            type(exc).__name__ if exc else "no task",
        )
        message.reject_log_error(log, self.connection_errors)


class Request(CeleryRequest):
    def on_failure(self, exc_info: ExceptionInfo, send_failed_event: bool = True, return_ok: bool = False) -> Any:  # noqa: FBT001, FBT002  Celery's
        raised = getattr(exc_info.exception, "exc", exc_info.exception)
        if not isinstance(raised, MemoryError):
            return super().on_failure(exc_info, send_failed_event, return_ok)
        log.error("task %s[%s] ran out of memory, left to redrive", self.name, self.id)
        task_ready(self)
        return self.reject(requeue=False)
