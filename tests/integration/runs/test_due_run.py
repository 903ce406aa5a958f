"""What a worker reads of its run is what Django reads of it."""

import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from runs.models import Run, RunInputs
from runs.reads import for_worker
from tests.gear.builders import runs as gear

pytestmark = pytest.mark.django_db


@pytest.mark.contract("DPP-30")
def test_dpp_30_a_due_run_is_read_whole_with_one_statement() -> None:
    run = gear.working()
    with CaptureQueriesContext(connection) as asked:
        found = for_worker.read_for_worker(run.run_id)
        assert found is not None
        run_as_read, sent = found.run, found.run.sent
    assert len(asked) == 1
    for model, ours, theirs in ((Run, run_as_read, gear.row(run.run_id)), (RunInputs, sent, gear.row(run.run_id).sent)):
        assert [getattr(ours, field.attname) for field in model._meta.concrete_fields] == [
            getattr(theirs, field.attname) for field in model._meta.concrete_fields
        ]
    assert (sent.run, isinstance(sent.inputs, dict)) == (run_as_read, True)


def test_due_a_run_whose_inputs_are_gone_is_still_read() -> None:
    run = gear.working()
    RunInputs.objects.filter(run_id=run.run_id).delete()
    found = for_worker.read_for_worker(run.run_id)
    assert found is not None
    assert found.run.status == run.status
    with pytest.raises(RunInputs.DoesNotExist):
        _ = found.run.sent


def test_due_an_unknown_run_is_nobody() -> None:
    assert for_worker.read_for_worker(uuid.uuid4()) is None
