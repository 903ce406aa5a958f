"""The two events of an auth error: in order, out of order, twice, by many at once, and after it has ended."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.utils import IntegrityError

from dpp_project import clock as clock_module
from dpp_project.clock import FixedClock
from dpp_project.outbox.events import Event, NotRetryable
from dpp_project.outbox.models import OutboxMessage
from ops.auth_errors import deciding, events, rules, transitions
from ops.auth_errors.models import AuthError, Cluster, ClusterDay, ClusterMember, ErrorDecision
from ops.auth_errors.states import EDGES, STATUS_OF, TERMINAL, AuthErrorStatus, DecisionType
from ops.auth_errors.transitions import StepOutcome
from tests.gear.builders import auth_errors as gear

pytestmark = pytest.mark.django_db(transaction=True)


def decided(decision: DecisionType, **values: Any) -> AuthError:
    error = gear.analyzed(**values)
    assert isinstance(
        deciding.decide_auth_error(auth_error_id=error.pk, decision=decision, by="operator:ada"), deciding.Decided
    )
    return gear.row(error.pk)


def everything() -> list[Any]:
    tables = (AuthError, Cluster, ClusterMember, ClusterDay, ErrorDecision, OutboxMessage)
    return [list(table.objects.order_by("pk").values()) for table in tables]


@pytest.mark.contract("AUT-04", "AUT-09")
def test_aut_09_recorded_asks_for_the_analysis() -> None:
    error = gear.requested()
    assert (error.status, error.version) == ("ANALYSIS_REQUESTED", 1)
    event = OutboxMessage.objects.get(event_type="auth.error.analysis.requested.v1")
    assert (event.idempotency_key, event.aggregate_id, event.tenant_id) == (
        f"auth_error:analysis_requested:{error.pk}",
        str(error.pk),
        error.tenant_id,
    )
    assert set(event.payload) == {"authErrorId", "requestId", "occurredAt", "requestedAt"}
    assert (event.payload["authErrorId"], event.payload["requestId"]) == (str(error.pk), error.dedup_key)
    assert event.payload["occurredAt"] == "2026-03-01T03:00:00+00:00"


@pytest.mark.contract("AUT-04", "AUT-10")
def test_aut_04_the_analysis_finds_hash_and_cluster() -> None:
    error = gear.analyzed()
    cluster = Cluster.objects.get()
    assert (error.status, error.cluster_id, error.stack_hash) == ("ANALYSIS_COMPLETED", cluster.pk, cluster.stack_hash)
    assert (error.hash_version, cluster.hash_version) == (1, 1)
    assert (cluster.occurrences, cluster.newest_error_id, cluster.status) == (1, error.pk, "OPEN")
    assert cluster.top_frame == "com.acme.auth.Tokens.verify"
    assert list(ClusterMember.objects.values_list("cluster_id", "auth_error_id")) == [(cluster.pk, error.pk)]
    assert list(ClusterDay.objects.values_list("day", "tenant_id", "occurrences")) == [
        (error.recorded_at.date(), "t_acme", 1)
    ]


@pytest.mark.contract("AUT-12")
@pytest.mark.contract("AUT-04")
@pytest.mark.parametrize("handle", [gear.handle_recorded, gear.handle_analysis])
@pytest.mark.parametrize("decision", [one for one in DecisionType if STATUS_OF[one] in TERMINAL])
def test_aut_04_a_terminal_error_is_skipped_by_every_handler(decision: DecisionType, handle: Any) -> None:
    error = decided(decision)
    before = everything()
    handle(error)
    assert everything() == before


@pytest.mark.contract("AUT-04")
def test_aut_04_events_twice_and_out_of_order_change_nothing_more() -> None:
    error = gear.analyzed()
    before = everything()
    for handle in (gear.handle_analysis, gear.handle_recorded, gear.handle_analysis):
        handle(error)
    assert everything() == before


@pytest.mark.contract("AUT-04")
def test_aut_04_an_analysis_that_comes_first_is_made_and_the_recorded_event_is_skipped() -> None:
    error = gear.recorded()
    payload = {"authErrorId": str(error.pk)}
    with transaction.atomic():
        events.on_analysis_requested(
            Event(outbox_id=uuid.uuid4(), aggregate_id=str(error.pk), event_type="x", payload=payload)
        )
    assert gear.row(error.pk).status == "ANALYSIS_COMPLETED"
    gear.handle_recorded(error)
    assert gear.row(error.pk).status == "ANALYSIS_COMPLETED"
    assert OutboxMessage.objects.count() == 1


@pytest.mark.contract("AUT-04")
@pytest.mark.parametrize("payload", [{}, {"authErrorId": None}, {"authErrorId": "x"}, {"authErrorId": 7}, "unknown"])
@pytest.mark.parametrize("handle", [events.on_recorded, events.on_analysis_requested])
def test_aut_07_an_event_of_no_known_error_is_a_dead_letter_at_once(payload: Any, handle: Any) -> None:
    gear.recorded()
    before = everything()
    payload = {"authErrorId": str(uuid.uuid4())} if payload == "unknown" else payload
    with pytest.raises(NotRetryable), transaction.atomic():
        handle(Event(outbox_id=uuid.uuid4(), aggregate_id="x", event_type="x", payload=payload))
    assert everything() == before


@pytest.mark.contract("AUT-04")
def test_aut_04_a_death_in_the_analysis_leaves_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    error = gear.requested()
    before = everything()

    def dies(*_args: Any, **_values: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(rules, "matching_decision_rule", dies)
        with pytest.raises(KeyboardInterrupt):
            gear.handle_analysis(error)
    assert everything() == before
    gear.handle_analysis(error)
    assert gear.row(error.pk).status == "ANALYSIS_COMPLETED"


@pytest.mark.contract("AUT-10")
def test_aut_10_fifty_at_once_make_one_cluster() -> None:
    found = [gear.requested(tenant_id=f"t_{number % 3}") for number in range(50)]

    def handle(error: AuthError) -> None:
        try:
            gear.handle_analysis(error)
        finally:
            connection.close()

    with ThreadPoolExecutor(50) as pool:
        list(pool.map(handle, found))
    cluster = Cluster.objects.get()
    assert (cluster.occurrences, ClusterMember.objects.count()) == (50, 50)
    assert sorted(ClusterDay.objects.values_list("tenant_id", "occurrences")) == [("t_0", 17), ("t_1", 17), ("t_2", 16)]
    assert cluster.newest_error_id == max(error.pk for error in found)
    assert set(AuthError.objects.values_list("status", "cluster_id")) == {("ANALYSIS_COMPLETED", cluster.pk)}


# What nobody may do, whichever way.

STATUSES = list(AuthErrorStatus)


def brought_to(status: AuthErrorStatus) -> AuthError:
    match status:
        case AuthErrorStatus.NEW:
            return gear.recorded()
        case AuthErrorStatus.ANALYSIS_REQUESTED:
            return gear.requested()
        case AuthErrorStatus.ANALYSIS_COMPLETED:
            return gear.analyzed()
    return decided(next(one for one, after in STATUS_OF.items() if after == status))


@pytest.mark.contract("AUT-04")
@pytest.mark.parametrize("before", STATUSES)
def test_aut_04_the_database_knows_the_edges(before: AuthErrorStatus) -> None:
    error = brought_to(before)
    due = clock_module.now()
    for after in STATUSES:
        values = {"status": after, "version": error.version + 1, "next_retry_at": due}
        if error.cluster_id is None:  # the constraint would refuse it for want of a cluster
            values |= {"cluster_id": gear.analyzed().cluster_id, "stack_hash": "x", "hash_version": 1}
        rows = AuthError.objects.filter(pk=error.pk)
        if (before, after) in EDGES:
            with transaction.atomic():
                assert rows.update(**values) == 1
                transaction.set_rollback(True)
        else:
            with pytest.raises(IntegrityError), transaction.atomic():
                rows.update(**values)
    assert gear.row(error.pk).status == before


@pytest.mark.contract("AUT-04")
@pytest.mark.parametrize(
    "values", [{"tenant_id": "t_x"}, {"stacktrace": "y"}, {"dedup_key": "z"}, {"status": "GONE"}, {"version": 0}]
)
def test_aut_04_what_was_reported_does_not_change(values: dict[str, Any]) -> None:
    error = gear.recorded()
    wanted = {"version": 1, "status": "ANALYSIS_REQUESTED"} | values
    with pytest.raises(IntegrityError), transaction.atomic():
        AuthError.objects.filter(pk=error.pk).update(**wanted)
    assert gear.row(error.pk) == error


@pytest.mark.contract("AUT-04")
@pytest.mark.parametrize("before", STATUSES)
def test_aut_04_an_edge_is_won_from_its_own_status_alone(before: AuthErrorStatus) -> None:
    error = brought_to(before)
    cluster_id = error.cluster_id or gear.analyzed().cluster_id
    assert cluster_id is not None
    edges = {
        AuthErrorStatus.ANALYSIS_REQUESTED: partial(transitions.request_analysis, auth_error_id=error.pk),
        AuthErrorStatus.ANALYSIS_COMPLETED: partial(
            transitions.complete_analysis,
            auth_error_id=error.pk,
            cluster_id=cluster_id,
            hash_version=1,
            stack_hash="x",
        ),
        AuthErrorStatus.RETRY: partial(
            transitions.mark_auth_error_retried,
            auth_error_id=error.pk,
            retry_count=error.retry_count + 1,
            next_retry_at=clock_module.now(),
        ),
        **{
            STATUS_OF[one]: partial(transitions.mark_auth_error_decided, auth_error_id=error.pk, decision=one)
            for one in DecisionType
            if one is not DecisionType.RETRY
        },
    }
    for after, move in edges.items():
        with transaction.atomic():
            assert move() is (StepOutcome.WON if (before, after) in EDGES else StepOutcome.LOST), after
            transaction.set_rollback(True)
    assert gear.row(error.pk).status == before


# Again.


@pytest.mark.contract("AUT-04")
def test_aut_04_a_retry_has_its_count_and_time_and_its_event_is_sent_again(clock: FixedClock) -> None:
    error = gear.analyzed()
    OutboxMessage.objects.all().update(status="PROCESSING", processing_owner=uuid.uuid4(), claimed_at=clock.now())
    OutboxMessage.objects.all().update(
        status="PUBLISHED", processing_owner=None, claimed_at=None, published_at=clock.now(), handled_at=clock.now()
    )
    key = f"auth_error:analysis_requested:{error.pk}"
    before = OutboxMessage.objects.get(idempotency_key=key)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO processed_message (outbox_id, status, retry_count, last_error) VALUES (%s, 'DONE', 2, 'x')",
            [before.pk],
        )
    assert isinstance(
        deciding.decide_auth_error(auth_error_id=error.pk, decision=DecisionType.RETRY, by="operator:ada"),
        deciding.Decided,
    )
    due = clock.now() + timedelta(seconds=10)
    waiting = gear.row(error.pk)
    assert (waiting.status, waiting.retry_count, waiting.next_retry_at) == ("RETRY", 1, due)
    event = OutboxMessage.objects.get(idempotency_key=key)
    assert (event.status, event.handled_at, event.payload) == ("PENDING", None, before.payload)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT status, retry_count, last_error, next_retry_at - now() BETWEEN '8 s' AND '10 s',"
            "       %s::timestamptz - now() BETWEEN '8 s' AND '10 s' FROM processed_message",
            [event.next_retry_at],
        )
        assert cursor.fetchall() == [("RETRY_WAIT", 0, "", True, True)]
    assert OutboxMessage.objects.count() == 2

    gear.handle_analysis(error)
    again = gear.row(error.pk)
    assert (again.status, again.retry_count, again.version) == ("ANALYSIS_COMPLETED", 1, 5)
    assert (Cluster.objects.get().occurrences, ClusterMember.objects.count()) == (1, 1)


@pytest.mark.contract("AUT-04", "AUT-08")
def test_aut_08_an_error_is_retried_six_times_at_most(clock: FixedClock) -> None:
    error = gear.analyzed()
    delays = []
    for _ in range(6):
        deciding.decide_auth_error(auth_error_id=error.pk, decision=DecisionType.RETRY, by="operator:ada")
        due = gear.row(error.pk).next_retry_at
        assert due is not None
        delays.append((due - clock.now()).total_seconds())
        clock.advance(seconds=600)
        gear.handle_analysis(error)
    assert delays == [10, 60, 600, 600, 600, 600]
    before = everything()
    refused = deciding.decide_auth_error(auth_error_id=error.pk, decision=DecisionType.RETRY, by="operator:ada")
    assert (getattr(refused, "reason", None), getattr(refused, "field", None)) == ("CONFLICT", "decision")
    assert everything() == before


@pytest.mark.contract("AUT-04")
def test_aut_04_a_retry_writes_the_event_anew_where_retention_took_it(clock: FixedClock) -> None:
    error = gear.analyzed()
    OutboxMessage.objects.all().delete()
    deciding.decide_auth_error(auth_error_id=error.pk, decision=DecisionType.RETRY, by="operator:ada")
    assert OutboxMessage.objects.get().idempotency_key == f"auth_error:analysis_requested:{error.pk}"
    with connection.cursor() as cursor:
        cursor.execute("SELECT status, next_retry_at - now() BETWEEN '8 s' AND '10 s' FROM outbox_message")
        assert cursor.fetchall() == [("PENDING", True)]
    gear.handle_analysis(error)
    assert gear.row(error.pk).status == "ANALYSIS_COMPLETED"


@pytest.mark.contract("AUT-08")
def test_aut_08_a_retry_is_due_by_the_databases_clock_whatever_a_process_says(clock: FixedClock) -> None:
    error = gear.analyzed()
    clock.advance(seconds=86_400)  # the operator's process is a day ahead of the consumer's
    deciding.decide_auth_error(auth_error_id=error.pk, decision=DecisionType.RETRY, by="operator:ada")
    clock.advance(seconds=-86_390)
    with connection.cursor() as cursor:
        cursor.execute("SELECT max(next_retry_at) - now() BETWEEN '8 s' AND '10 s' FROM outbox_message")
        assert cursor.fetchone() == (True,)
    gear.handle_analysis(error)
    assert gear.row(error.pk).status == "ANALYSIS_COMPLETED"
