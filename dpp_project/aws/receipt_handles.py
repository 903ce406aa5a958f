"""Deletes messages and changes their visibility, ten a request. Nothing here raises: SQS repeats what it still has."""

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from dpp_project.aws import clients

if TYPE_CHECKING:
    from mypy_boto3_sqs.type_defs import (
        BatchResultErrorEntryTypeDef,
        ChangeMessageVisibilityBatchRequestEntryTypeDef,
    )

log = logging.getLogger("dpp.sqs")

BATCH = 10


def delete_receipts(url: str, receipts: Sequence[str]) -> None:
    """Finished for good. A delete that fails repeats the message after its visibility timeout."""
    for some in _batches(receipts):
        try:
            answer = clients.sqs_client().delete_message_batch(
                QueueUrl=url, Entries=[{"Id": str(at), "ReceiptHandle": receipt} for at, receipt in enumerate(some)]
            )
        except (BotoCoreError, ClientError, OSError) as error:
            log.warning("%d finished messages could not be deleted and will repeat", len(some), exc_info=error)
        else:
            _log_failed("deleted", answer.get("Failed", []))


def release_receipts(url: str, receipts: Sequence[str]) -> None:
    """Visible again at once, for any worker. One that fails is visible after its visibility timeout."""
    _make_visible_in(0, url, receipts, what="returned")


def keep_receipts(url: str, receipts: Sequence[str], *, seconds: int) -> None:
    """Still ours: invisible for as long again. Another worker may receive one that fails, and finds the run started."""
    _make_visible_in(seconds, url, receipts, what="kept")


def _make_visible_in(seconds: int, url: str, receipts: Sequence[str], *, what: str) -> None:
    for some in _batches(receipts):
        entries: list[ChangeMessageVisibilityBatchRequestEntryTypeDef] = [
            {"Id": str(at), "ReceiptHandle": receipt, "VisibilityTimeout": seconds} for at, receipt in enumerate(some)
        ]
        try:
            answer = clients.sqs_client().change_message_visibility_batch(QueueUrl=url, Entries=entries)
        except ClientError as error:
            log.warning("%d messages could not be %s", len(some), what, exc_info=error)
        except (BotoCoreError, OSError) as error:
            # No answer: the next batch would wait as long, and a heartbeat's next renewal of its leases behind it.
            log.warning("SQS does not answer, some of %d messages are not %s", len(receipts), what, exc_info=error)
            return
        else:
            _log_failed(what, answer.get("Failed", []))


def _batches(receipts: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(receipts), BATCH):
        yield receipts[start : start + BATCH]


def _log_failed(what: str, failed: "Sequence[BatchResultErrorEntryTypeDef]") -> None:
    if failed:
        log.warning("%d messages were not %s: %s", len(failed), what, sorted({entry["Code"] for entry in failed}))
