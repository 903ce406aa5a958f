"""The worker's side of the bucket: its run's result into it, its tenant's uploads out of it."""

import hashlib
from collections.abc import Callable
from typing import Final

import structlog
from botocore.exceptions import BotoCoreError, ClientError

from budget.money import capped_charge_micros
from dpp_project import clock
from dpp_project.reasons import ReasonCode
from dpp_project.stores.retry_while_away import Patience
from runs.box.outcomes import Done, Failed
from runs.bucket import storage
from runs.bucket.storage import ObjectMissing, ObjectTooLarge
from runs.bucket.uploads import MAX_UPLOAD_BYTES
from runs.intents import Intent, ResultPointer
from runs.models import Run
from runs.packs.pack import EngineUnavailable, PackFailed
from runs.worker import result_envelope
from runs.worker.result_envelope import Envelope

log = structlog.get_logger("dpp.run")

STORE_PATIENCE_SECONDS: Final = 60.0
"""A bucket that is away for half a minute costs nobody a result (DPP-39)."""
STORE_AWAY: Final = (BotoCoreError, ClientError, OSError)


def decided(run: Run, outcome: Done | Failed, *, is_lost: Callable[[], bool]) -> Intent:
    """Store the envelope, and answer what the claim is to write. Only the worker does this, and before its claim.

    Died after it: an object that no row points to, gone with the run's prefix at the end of its retention.
    A bucket that stays away costs the tenant the minimum fee at most: there is no result to sell.
    """
    sealed = result_envelope.seal(run, outcome, used_micros=_charge_micros(run, outcome), generated_at=clock.now())
    return _intent(run, outcome, _stored(run, sealed, is_lost))


def _charge_micros(run: Run, outcome: Done | Failed) -> int:
    """What the run will cost by how its pack ended (DPP-35)."""
    if isinstance(outcome, Done):
        return capped_charge_micros(outcome.spent_micros, reserved_micros=run.reservation_max_cost_usd_micros)
    return _failure(run, outcome, None).charge_micros


def _intent(run: Run, outcome: Done | Failed, pointer: ResultPointer | None) -> Intent:
    if isinstance(outcome, Failed):
        return _failure(run, outcome, pointer)
    if pointer is None:
        lost = Failed(reason=ReasonCode.RESULT_LOST, detail="The result could not be stored.", tokens=outcome.tokens)
        return _failure(run, lost, None)
    return Intent.completed(
        actual_micros=outcome.spent_micros,
        reserved_micros=run.reservation_max_cost_usd_micros,
        result=pointer,
        tokens_consumed=outcome.tokens,
    )


def _failure(run: Run, failed: Failed, pointer: ResultPointer | None) -> Intent:
    """The minimum fee; nothing where the platform itself lacked what the pack needs."""
    if failed.reason is ReasonCode.ENGINE_UNAVAILABLE:
        return Intent.full_refund(reason=failed.reason, detail=failed.detail, result=pointer)
    return Intent.minimum_fee(
        minimum_fee_micros=run.minimum_fee_usd_micros,
        reserved_micros=run.reservation_max_cost_usd_micros,
        reason=failed.reason,
        detail=failed.detail,
        result=pointer,
        tokens_consumed=failed.tokens,
    )


def _stored(run: Run, sealed: Envelope, is_lost: Callable[[], bool]) -> ResultPointer | None:
    """Where the envelope lies, its files before it; None when the bucket stays away, or the run is lost meanwhile."""
    bucket = storage.shared()
    patience = Patience(seconds=STORE_PATIENCE_SECONDS)
    waiting = [*sealed.files, sealed.document]
    while not is_lost():
        try:
            while waiting:
                bucket.put(waiting[0].key, waiting[0].content, content_type=waiting[0].content_type)
                del waiting[0]
            sha256 = hashlib.sha256(sealed.document.content).hexdigest()
            return ResultPointer(bucket=str(bucket.bucket_name), key=sealed.document.key, sha256=sha256)
        except STORE_AWAY as error:
            log.warning(
                "bucket does not take the envelope", run_id=str(run.run_id), tried=patience.tried, exc_info=error
            )
            if not patience.lasts():
                log.exception("envelope not stored", run_id=str(run.run_id), tenant_id=run.tenant_id, exc_info=error)
                break
    return None


def upload_reader(tenant_id: str) -> Callable[[str], bytes]:
    """Reads the tenant's own uploads and refuses every other key; what its pack's box is given."""
    prefix = storage.upload_prefix(tenant_id)

    def read(key: str) -> bytes:
        if not key.startswith(prefix) or any(part in {"", ".", ".."} for part in key.split("/")):
            raise PackFailed("The file is not one of your uploads.")
        try:
            return storage.shared().read(key, max_bytes=MAX_UPLOAD_BYTES)
        except ObjectMissing:
            raise PackFailed("There is no such upload.") from None
        except ObjectTooLarge:
            raise PackFailed("The upload is too large.") from None
        except STORE_AWAY as error:
            log.warning("bucket does not give an upload", tenant_id=tenant_id, exc_info=error)
            raise EngineUnavailable("The store of uploads does not answer.") from None

    return read
