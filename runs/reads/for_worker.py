"""What a worker reads of a run: the row that its message names, and everything that was sent."""

import uuid
from typing import Final

from runs.models import Run
from runs.reads.with_inputs import RunReader

_WHOLE: Final = RunReader()


def read_for_worker(run_id: uuid.UUID) -> Run | None:
    """None where there is no such row; an expired run has no `sent`."""
    return _WHOLE.one("runs.run_id = %s", run_id)
