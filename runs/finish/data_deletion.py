"""The owner, or an operator, has a run's data deleted before its time (DPP-92).

    retention   `retention_until` = now and the metadata deleted, one statement: 410 from here on, by the clock. What
                automations have copied of it goes in the same transaction
    objects     deleted at once, as far as S3 answers: addresses handed out before lead nowhere

Died after the first: the next pass of the retention deletes objects, inputs and pointer and makes the run a tombstone,
as it does with every run past its time; so it does where S3 did not answer. Nothing of the money is touched: charge,
ledger and the tombstone's figures stay. The version stays too, so that no actor at the row is disturbed.

"Now" is the earlier of the database's clock and this process's: by whichever of the two one reads, it is past.
"""

from dataclasses import dataclass
from uuid import UUID

import structlog
from botocore.exceptions import BotoCoreError, ClientError
from django.db import transaction

from dpp_project import clock
from dpp_project.audit import trail
from runs import ports, transitions
from runs.bucket import storage
from runs.models import Run
from runs.reads import for_tenant
from runs.states import Stage

log = structlog.get_logger("dpp.run")


@dataclass(frozen=True, slots=True)
class DataDeleted:
    """The run's time is over; `anew` tells whether this call ended it."""

    run: Run
    anew: bool


@dataclass(frozen=True, slots=True)
class NotEnded:
    """The run is open, and nothing was changed."""

    run: Run


def delete_run_data(*, tenant_id: str, run_id: UUID, actor: str) -> DataDeleted | NotEnded | None:
    """See the module. None: the tenant has no such run. Key: the run; asked again it changes nothing, and answers the
    same.
    """
    run = for_tenant.run_of_tenant(tenant_id, run_id)
    if run is None:
        return None
    if run.finalize_stage != Stage.COMMITTED:  # a stage that is never left: what the statement finds is no other
        return NotEnded(run)
    with transaction.atomic():
        Run.objects.select_for_update().only("pk").get(pk=run_id)  # of two at once the second asks after the first
        now = clock.now()
        ended, untold = transitions.end_retention(run_id=run_id, now=now)
        if ended or untold:
            trail.record_in_trail(
                "run data deleted",
                actor=actor,
                subject=f"run {run_id}",
                tenant_id=tenant_id,
                before={"retention_until": run.retention_until},
                after={"retention_until": now if ended else run.retention_until, "metadata_deleted": untold},
            )
        ports.delete_copies(run_id)
    _delete_objects(run)
    return DataDeleted(run, anew=ended)


def _delete_objects(run: Run) -> None:
    """Safe to repeat. What it leaves, the retention deletes."""
    prefix = storage.run_prefix(tenant_id=run.tenant_id, run_id=run.run_id, created_at=run.created_at)
    try:
        storage.shared_run_storage().delete_prefix(prefix)
    except (BotoCoreError, ClientError, OSError, storage.ObjectsNotDeleted) as error:
        log.warning("objects not deleted yet", run_id=str(run.run_id), tenant_id=run.tenant_id, exc_info=error)
