"""An UPDATE that Django writes once: what it changes, what it refuses, and that no call leaves anything behind."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import DurationField, F
from django.db.models.functions import Now

from runs.compiled_update import CompiledUpdate, Given, compared_row
from runs.models import Run
from runs.states import MoneyState
from tests.gear.builders import runs as gear

pytestmark = pytest.mark.django_db


def sending_later() -> CompiledUpdate:
    return CompiledUpdate(
        Run.objects.filter(compared_row(money_state=Given("money_state")), run_id=Given("run_id")),
        version=F("version") + 1,
        next_send_at=Now() + Given("later", DurationField()),
        last_error_detail=Given("detail"),
    )


def test_compiled_update_changes_the_rows_that_its_arguments_name(django_assert_num_queries: Any) -> None:
    update, run, other = sending_later(), gear.accepted(), gear.accepted()
    for count, detail in enumerate(("first", None, "third"), start=1):
        with django_assert_num_queries(1):
            changed = update(
                run_id=run.run_id, money_state=MoneyState.NONE.value, later=timedelta(hours=count), detail=detail
            )
        found = gear.row(run.run_id)
        assert (changed, found.version, found.last_error_detail) == (1, run.version + count, detail)
        assert found.next_send_at is not None
        assert found.next_send_at > run.created_at + timedelta(hours=count)
    assert gear.row(other.run_id).version == other.version


def test_compiled_update_of_a_row_in_another_state_changes_nothing() -> None:
    run = gear.reserved()
    before = gear.everything(run.run_id)
    assert sending_later()(run_id=run.run_id, money_state="NONE", later=timedelta(0), detail=None) == 0
    assert gear.everything(run.run_id) == before


@pytest.mark.parametrize("wrong", [{"run_id": None}, {"version": 1}])
def test_compiled_update_sends_nothing_without_its_exact_arguments(
    wrong: dict[str, Any], django_assert_num_queries: Any
) -> None:
    """A guard whose argument was forgotten must not become a statement without that guard."""
    given = {"run_id": gear.reserved().run_id, "money_state": "RESERVED", "later": timedelta(0), "detail": None}
    given |= wrong
    if wrong == {"run_id": None}:
        del given["run_id"]
    with django_assert_num_queries(0), pytest.raises(TypeError, match="takes"):
        sending_later()(**given)
