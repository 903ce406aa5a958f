"""The worker's side of the bucket: its run's result into it, its tenant's uploads out of it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import structlog
from botocore.exceptions import BotoCoreError, ClientError

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
UNFIT: Final = "The result holds what no document can."
STORE_AWAY: Final = (BotoCoreError, ClientError, OSError)


def store_result(
    run: Run, outcome: Done | Failed, *, is_lost: Callable[[], bool], said: Iterable[Mapping[str, Any]] = ()
) -> Intent:
    """Store the envelope, and answer what the claim is to write. Only the worker does this, and before its claim.

    Died after it: an object that no row points to, gone with the run's prefix at the end of its retention.
    A bucket that stays away costs the tenant the minimum fee at most: there is no result to sell.
    """
    intent = _intent(run, outcome)
    seal = partial(result_envelope.seal_envelope, run, generated_at=clock.now(), said=[*said])
    try:
        sealed = seal(outcome, used_micros=intent.charge_micros)
    except (RecursionError, ValueError):  # nested as deep as can be read, and not as deep as can be written
        outcome = Failed(reason=ReasonCode.PACK_FAILED, detail=UNFIT, tokens=outcome.tokens)
        intent = _intent(run, outcome)
        sealed = seal(outcome, used_micros=intent.charge_micros)
    pointer = _stored(run, sealed, is_lost)
    if pointer is None and isinstance(outcome, Done):
        lost = Failed(reason=ReasonCode.RESULT_LOST, detail="The result could not be stored.", tokens=outcome.tokens)
        return _intent(run, lost)
    return replace(intent, result=pointer)


def _intent(run: Run, outcome: Done | Failed) -> Intent:
    """How the run will end and what it costs (DPP-35): what it used, at most the hold; the minimum fee where the pack
    failed; nothing where the platform itself lacked what the pack needs.
    """
    if isinstance(outcome, Done):
        return Intent.completed(
            actual_micros=outcome.spent_micros,
            reserved_micros=run.reservation_max_cost_usd_micros,
            tokens_consumed=outcome.tokens,
        )
    if outcome.reason is ReasonCode.ENGINE_UNAVAILABLE:
        return Intent.full_refund(reason=outcome.reason, detail=outcome.detail)
    return Intent.minimum_fee(
        minimum_fee_micros=run.minimum_fee_usd_micros,
        reserved_micros=run.reservation_max_cost_usd_micros,
        reason=outcome.reason,
        detail=outcome.detail,
        tokens_consumed=outcome.tokens,
    )


def _stored(run: Run, sealed: Envelope, is_lost: Callable[[], bool]) -> ResultPointer | None:
    """Where the envelope lies, its files before it; None when the bucket stays away, or the run is lost meanwhile."""
    bucket = storage.shared_run_storage()
    patience = Patience(seconds=STORE_PATIENCE_SECONDS)
    files = [*sealed.files]
    while not is_lost():
        try:
            while files:
                bucket.put(files[0].key, files[0].content, content_type=files[0].content_type)
                del files[0]
            document = sealed.document
            sha256 = bucket.put(document.key, document.content, content_type=document.content_type)
            return ResultPointer(
                bucket=str(bucket.bucket_name), key=document.key, sha256=sha256, artifacts=sealed.artifacts
            )
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

    def read(key: str) -> bytes:
        if not storage.is_own_upload(tenant_id, key):
            raise PackFailed("The file is not one of your uploads.")
        try:
            return storage.shared_run_storage().read(key, max_bytes=MAX_UPLOAD_BYTES)
        except ObjectMissing:
            raise PackFailed("There is no such upload.") from None
        except ObjectTooLarge:
            raise PackFailed("The upload is too large.") from None
        except STORE_AWAY as error:
            log.warning("bucket does not give an upload", tenant_id=tenant_id, exc_info=error)
            raise EngineUnavailable("The store of uploads does not answer.") from None

    return read
