"""Events are written with their fact, once, and are frozen."""

import pytest
from django.db import IntegrityError, connection, transaction

from dpp_project.outbox import wakeup, writing
from dpp_project.outbox.events import NewEvent
from dpp_project.outbox.models import OutboxMessage
from tests.gear.builders.events import HAPPENED, an_event, written

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("AUT-05")]

FACT = "WITH made AS (SELECT 1 WHERE %s), event AS ({}) SELECT count(*) FROM made"


def with_its_fact(event: NewEvent, *, made: bool) -> None:
    sql, values = writing.outbox_clause(event, fact="made")
    with connection.cursor() as cursor:
        cursor.execute(FACT.format(sql), [made, *values])


@pytest.mark.contract("AUT-03")
@pytest.mark.parametrize("made", [True, False])
def test_aut_03_an_event_is_written_where_its_fact_is(*, made: bool) -> None:
    event = an_event("a")
    with_its_fact(event, made=made)
    rows = list(OutboxMessage.objects.all())
    assert [(row.idempotency_key, row.status, row.payload, row.retry_count) for row in rows] == (
        [("thing:happened:a", "PENDING", {"thing": "a"}, 0)] if made else []
    )


def test_aut_05_the_same_key_with_the_same_content_is_one_row() -> None:
    first = written(an_event("a"))
    again = written(an_event("a"))
    with_its_fact(an_event("a"), made=True)
    assert OutboxMessage.objects.count() == 1
    assert (again.outbox_id, again.created_at) == (first.outbox_id, first.created_at)


@pytest.mark.parametrize(
    "other", [an_event("a", payload={"thing": "b"}), an_event("a", tenant_id="t_other"), an_event("a", tenant_id=None)]
)
def test_aut_05_the_same_key_with_another_content_raises(other: NewEvent) -> None:
    first = written(an_event("a"))
    with pytest.raises(IntegrityError, match="thing:happened:a is written, and is frozen"), transaction.atomic():
        writing.insert_event(other)
    with pytest.raises(IntegrityError, match="frozen"):
        with_its_fact(other, made=True)
    row = OutboxMessage.objects.get()
    assert (row.outbox_id, row.payload, row.tenant_id) == (first.outbox_id, {"thing": "a"}, "t_first")


@pytest.mark.parametrize(
    "change",
    [
        {"payload": {"thing": "b"}},
        {"idempotency_key": "another"},
        {"aggregate_type": "other"},
        {"aggregate_id": "b"},
        {"event_type": "thing.other.v1"},
        {"tenant_id": None},
        {"created_at": "2026-01-01T00:00:00Z"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_aut_05_what_an_event_says_is_frozen(change: dict[str, object]) -> None:
    row = written()
    with pytest.raises(IntegrityError, match="frozen"):
        OutboxMessage.objects.update(**change)
    assert OutboxMessage.objects.values().get() == OutboxMessage.objects.filter(pk=row.pk).values().get()
    assert OutboxMessage.objects.get() == row


LEGAL = {
    ("PENDING", "PROCESSING"),
    ("PROCESSING", "PUBLISHED"),
    ("PROCESSING", "PENDING"),
    ("PROCESSING", "DEAD"),
    ("PUBLISHED", "PENDING"),
    ("DEAD", "PENDING"),
}
WAY = {
    "PENDING": [],
    "PROCESSING": ["PROCESSING"],
    "PUBLISHED": ["PROCESSING", "PUBLISHED"],
    "DEAD": ["PROCESSING", "DEAD"],
}


def step(to: str) -> int:
    claim: dict[str, str | None] = {"processing_owner": None, "claimed_at": None}
    if to == "PROCESSING":
        claim = {"processing_owner": "00000000-0000-7000-8000-000000000000", "claimed_at": "2026-01-01T00:00:00Z"}
    return OutboxMessage.objects.update(status=to, published_at="2026-01-01T00:00:00Z", **claim)


@pytest.mark.parametrize("before", WAY)
@pytest.mark.parametrize("to", WAY)
def test_aut_05_the_database_knows_the_edges(before: str, to: str) -> None:
    written()
    for status in WAY[before]:
        step(status)
    if before == to or (before, to) in LEGAL:
        assert step(to) == 1
        assert OutboxMessage.objects.get().status == to
        return
    with pytest.raises(IntegrityError, match=f"{before} to {to} is no step"):
        step(to)
    assert OutboxMessage.objects.get().status == before


def test_aut_05_an_event_begins_pending() -> None:
    with pytest.raises(IntegrityError, match="begins PENDING, not DEAD"):
        OutboxMessage.objects.create(
            outbox_id="00000000-0000-7000-8000-000000000000", payload={}, status=OutboxMessage.Status.DEAD
        )
    assert not OutboxMessage.objects.exists()


def test_aut_05_a_commit_of_this_process_wakes_its_publisher_and_a_rollback_does_not() -> None:
    wakeup.publisher_bell().clear()
    with transaction.atomic():
        writing.insert_event(an_event())
        transaction.set_rollback(True)
    assert not wakeup.publisher_bell().is_set()
    written()
    assert wakeup.publisher_bell().is_set()


def test_aut_05_a_key_comes_from_the_aggregates_id_alone() -> None:
    assert HAPPENED.key("0197") == "thing:happened:0197"
