"""What stands on top of a run's page in the console: its life, its money, what acts next, and its result."""

from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from budget import ledger
from dpp_project import clock
from runs.bucket import storage
from runs.models import Run
from runs.operators import explain_run, explanation
from runs.reads import life

PREVIEW_BYTES: Final = 4_096
ENVELOPE_BYTES: Final = 1_048_576
CANNOT: Final = "The result cannot be read now"


def context_of(run: Run, *, previews: bool) -> dict[str, Any]:
    """`previews`: the result is read from the bucket, which is done when it is asked for and by who may."""
    now = clock.now()
    told = explain_run.explain(run, now=now)
    charged = run.actual_cost_usd_micros
    return {
        "run": run,
        "life": life.life_of(run, explain_run.run_timeline(run), now=now),
        "told": told,
        "next_steps": [(step.actor, explanation.explanation_time(step.at, now=now), step.does) for step in told.next],
        "returned_micros": None if charged is None else run.reservation_max_cost_usd_micros - charged,
        "entries": ledger.entries_of_run(run.tenant_id, run.run_id),
        "preview": preview_of(run) if previews else None,
    }


def preview_of(run: Run) -> str:
    """The beginning of the envelope; what is in the way is said instead."""
    if run.result_key is None:
        return "It has no result."
    try:
        text = storage.shared_run_storage().read(run.result_key, max_bytes=ENVELOPE_BYTES).decode("utf-8", "replace")
    except storage.ObjectTooLarge:
        return f"{CANNOT}: it is larger than 1 MB."
    except storage.ObjectMissing:
        return f"{CANNOT}: the bucket does not have it."
    except (BotoCoreError, ClientError) as error:
        return f"{CANNOT}: S3 answered {type(error).__name__}."
    return text if len(text) <= PREVIEW_BYTES else f"{text[:PREVIEW_BYTES]} …"
