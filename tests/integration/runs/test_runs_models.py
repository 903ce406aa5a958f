"""What Postgres itself refuses of runs, whoever writes (DPP-59), and the documented DDL."""

import itertools
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.core import checks
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.db.models import F

from budget.money import minimum_fee_micros
from dpp_project.reasons import ReasonCode
from runs.models import Run, RunDispute, RunHistory, RunInputs
from runs.states import LEGAL, TERMINAL, Combination, MoneyState, Stage, Status, may_follow
from tests.gear.builders import runs as gear
from tests.gear.builders.tenants import a_tenant

pytestmark = [pytest.mark.django_db, pytest.mark.contract("DPP-59")]

ALL = tuple(itertools.product(Status, MoneyState, (None, *Stage)))
IntentColumns = tuple[Status, MoneyState]


def refused_by(rule: str) -> Any:
    return pytest.raises(IntegrityError, match=rule)


def values_of(combination: Combination, intent: IntentColumns) -> dict[str, Any]:
    """Columns of a row in this combination that obey every other rule, so that only the combination is in question."""
    status, money, stage = combination
    values: dict[str, Any] = {
        "tenant_id": "t_operator",
        "pack_type": "decision",
        "payload_hash": gear.PAYLOAD_HASH,
        "reservation_max_cost_usd_micros": gear.RESERVED_MICROS,
        "minimum_fee_usd_micros": gear.FEE_MICROS,
        "retention_until": "2026-03-31T00:00:00Z",
        "last_actor": "test",
        "status": status,
        "money_state": money,
        "finalize_stage": stage,
        "lease_token": "lease",
        "lease_expires_at": "2026-03-01T00:00:00Z",
        "next_send_at": "2026-03-01T00:00:00Z",
    }
    if stage is None:
        return values
    charge = {
        (Status.COMPLETED, MoneyState.SETTLED): gear.ACTUAL_MICROS,
        (Status.FAILED, MoneyState.SETTLED): gear.FEE_MICROS,
    }.get(intent, 0)
    values |= {
        "finalize_token": "token",
        "finalize_claimed_at": "2026-03-01T00:00:00Z",
        "intent_status": intent[0],
        "intent_money_state": intent[1],
        "intent_charge_usd_micros": charge,
        "intent_reason_code": None if intent[0] is Status.COMPLETED else "WORKER_TIMEOUT",
    }
    if intent[0] is Status.COMPLETED and status is not Status.EXPIRED:
        values |= {"result_bucket": "b", "result_key": "k", "result_sha256": "s"}
    if stage is Stage.COMMITTED:
        values["actual_cost_usd_micros"] = charge
    return values


INTENTS: tuple[IntentColumns, ...] = (
    (Status.COMPLETED, MoneyState.SETTLED),
    (Status.FAILED, MoneyState.SETTLED),
    (Status.FAILED, MoneyState.REFUNDED),
)


def stored(values: dict[str, Any]) -> Run | None:
    try:
        with transaction.atomic():
            return Run.objects.create(run_id=uuid.uuid4(), **values)
    except IntegrityError:
        return None


def test_dpp_59_only_legal_combinations_can_be_stored() -> None:
    accepted = {combination for combination in ALL for intent in INTENTS if stored(values_of(combination, intent))}
    assert accepted == LEGAL


def test_dpp_59_only_edges_lead_from_one_row_to_the_next() -> None:
    taken = set()
    for before, after in itertools.product(sorted(LEGAL, key=str), sorted(LEGAL, key=str)):
        for intent in INTENTS:
            run = stored(values_of(before, intent))
            if run is None:
                continue
            columns = values_of(after, intent)
            if after[2] is Stage.COMMITTED and before[2] is Stage.COMMITTED:
                columns |= {"last_error_detail": None}
            try:
                with transaction.atomic():
                    Run.objects.filter(pk=run.pk).update(**columns, version=F("version") + 1)
            except IntegrityError:
                continue
            taken.add((before, after))
    assert taken == {(before, after) for before, after in itertools.product(LEGAL, LEGAL) if may_follow(before, after)}


@pytest.mark.parametrize(
    ("column", "value", "rule"),
    [
        ("status", "RUNNING", "runs_status_known|runs_terminal"),
        ("money_state", "OWED", "runs_money_state_known|runs_terminal"),
        ("finalize_stage", "DONE", "runs_finalize_stage_known|runs_actual|runs_terminal"),
        ("reservation_max_cost_usd_micros", 0, "runs_reservation_positive"),
        ("reservation_max_cost_usd_micros", -1, "runs_reservation_positive"),
        ("reservation_max_cost_usd_micros", 2**53, "runs_reservation_positive"),
        ("minimum_fee_usd_micros", 4_999, "runs_minimum_fee_by_the_rule"),
        ("minimum_fee_usd_micros", 5_001, "runs_minimum_fee_by_the_rule"),
        ("actual_cost_usd_micros", 1, "runs_actual_known_when_committed"),
        ("version", -1, "runs_version_not_negative"),
        ("payload_hash", "A" * 64, "runs_payload_hash_form"),
        ("idempotency_key", "seven77", "runs_idempotency_key_size"),
        ("idempotency_key", "k" * 65, "runs_idempotency_key_size"),
        ("last_actor", "", "runs_last_actor_given"),
        ("tokens_consumed", -1, "runs_tokens_not_negative"),
        ("result_key", "k", "runs_pointer_whole_or_none|runs_intent_from_claim_on"),
        ("intent_status", "COMPLETED", "runs_intent"),
        ("finalize_token", "t", "runs_intent_from_claim_on"),
    ],
)
def test_dpp_59_a_wrong_value_is_refused(column: str, value: object, rule: str) -> None:
    values = values_of((Status.QUEUED, MoneyState.NONE, None), INTENTS[0]) | {column: value}
    if column == "reservation_max_cost_usd_micros" and isinstance(value, int):
        values["minimum_fee_usd_micros"] = minimum_fee_micros(value)
    with refused_by(rule), transaction.atomic():
        Run.objects.create(run_id=uuid.uuid4(), **values)
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    ("column", "value", "rule"),
    [
        ("actual_cost_usd_micros", gear.RESERVED_MICROS + 1, "runs_actual"),
        ("actual_cost_usd_micros", gear.ACTUAL_MICROS + 1, "runs_actual_known_when_committed"),
        ("actual_cost_usd_micros", -1, "runs_actual_within_reservation"),
        ("actual_cost_usd_micros", None, "runs_actual_known_when_committed"),
        ("intent_charge_usd_micros", gear.RESERVED_MICROS + 1, "runs_intent_is_one_of_three"),
        ("intent_money_state", "REFUNDED", "runs_intent_is_one_of_three"),
        ("intent_status", "EXPIRED", "runs_intent_is_one_of_three"),
        ("intent_reason_code", "PACK_FAILED", "runs_intent_is_one_of_three"),
        ("result_sha256", None, "runs_pointer_whole_or_none|runs_intent_is_one_of_three"),
        ("money_state", "RESERVED", "runs_terminal_means_money_ended"),
        ("money_state", "NONE", "runs_terminal_means_money_ended"),
    ],
)
def test_dpp_59_an_ended_run_with_a_wrong_value_is_refused(column: str, value: object, rule: str) -> None:
    combination = (Status.COMPLETED, MoneyState.SETTLED, Stage.COMMITTED)
    assert stored(values_of(combination, INTENTS[0]))
    with refused_by(rule), transaction.atomic():
        Run.objects.create(run_id=uuid.uuid4(), **(values_of(combination, INTENTS[0]) | {column: value}))
    assert Run.objects.count() == 1


@pytest.mark.parametrize("charge", [gear.FEE_MICROS - 1, gear.FEE_MICROS + 1, 0])
def test_dpp_35_a_failure_costs_the_minimum_fee_exactly(charge: int) -> None:
    values = values_of((Status.PROCESSING, MoneyState.RESERVED, Stage.CLAIMED), INTENTS[1])
    assert stored(values)
    with refused_by("runs_intent_is_one_of_three"), transaction.atomic():
        Run.objects.create(run_id=uuid.uuid4(), **(values | {"intent_charge_usd_micros": charge}))


@pytest.mark.contract("DPP-35")
@pytest.mark.parametrize("reserved", [1, 4_999, 249_999, 250_000, 250_001, 250_049, 4_999_999, 5_000_000, 2**53 - 1])
def test_dpp_35_the_minimum_fee_is_the_rule_in_integers(reserved: int) -> None:
    values = values_of((Status.QUEUED, MoneyState.NONE, None), INTENTS[0])
    values |= {"reservation_max_cost_usd_micros": reserved, "minimum_fee_usd_micros": minimum_fee_micros(reserved)}
    assert stored(values)
    assert stored(values | {"minimum_fee_usd_micros": minimum_fee_micros(reserved) + 1}) is None


@pytest.mark.parametrize("change", [-1, 0, 2])
def test_dpp_59_the_version_only_grows_by_one(change: int) -> None:
    run = gear.accepted()
    before = gear.everything(run.run_id)
    with refused_by("runs_version_grows"), transaction.atomic():
        Run.objects.filter(pk=run.pk).update(
            version=F("version") + change, money_state=MoneyState.RESERVED, next_send_at="2026-03-01T00:00:00Z"
        )
    assert gear.everything(run.run_id) == before


GUARDED: dict[str, Any] = {
    "status": Status.FAILED,
    "money_state": MoneyState.NONE,
    "finalize_stage": None,
    "finalize_token": "other",
    "intent_status": Status.FAILED,
    "intent_money_state": MoneyState.REFUNDED,
    "intent_charge_usd_micros": 1,
    "intent_reason_code": "PACK_FAILED",
    "actual_cost_usd_micros": 1,
    "tokens_consumed": 1,
    "result_bucket": "other",
    "result_key": "other",
    "result_sha256": "other",
    "result_artifacts": {"other": {}},
    "last_error_reason_code": "PACK_FAILED",
    "last_error_detail": "other",
    "lease_token": "other",
    "idempotency_key": "another-key",
    "last_actor": "other",
}
FIXED = {
    "run_id": uuid.UUID(int=7),
    "tenant_id": "t_operator",
    "pack_type": "ocr",
    "profile_version": "other",
    "payload_hash": "c" * 64,
    "trace_id": "other",
    "lineage_id": uuid.UUID(int=7),
    "price_version": "other",
    "reservation_max_cost_usd_micros": 250_001,
    "minimum_fee_usd_micros": 5_001,
}
FREE = (
    "lease_expires_at",
    "finalize_claimed_at",
    "next_send_at",
    "send_count",
    "dead_lettered_at",
    "retention_until",
    "created_at",
    "updated_at",
)


@pytest.mark.parametrize("column", GUARDED)
def test_dpp_59_what_a_run_is_changes_only_with_its_version(column: str) -> None:
    run = gear.claimed()
    before = gear.everything(run.run_id)
    with refused_by("runs_version_grows"), transaction.atomic():
        Run.objects.filter(pk=run.pk).update(**{column: GUARDED[column]})
    assert gear.everything(run.run_id) == before


@pytest.mark.parametrize("column", FIXED)
def test_dpp_59_what_was_accepted_never_changes(column: str) -> None:
    run = gear.accepted()
    before = gear.everything(run.run_id)
    with refused_by("runs_identity_is_fixed"), transaction.atomic():
        Run.objects.filter(pk=run.pk).update(**{column: FIXED[column]}, version=F("version") + 1)
    assert gear.everything(run.run_id) == before


def test_runs_models_every_column_is_fixed_guarded_or_free() -> None:
    columns = {field.attname for field in Run._meta.concrete_fields}
    assert columns == {*GUARDED, *FIXED, *FREE, "version", "spend_day"}


@pytest.mark.contract("DPP-20")
@pytest.mark.parametrize("state", ["working", "claimed", "committed"])
def test_dpp_59_only_the_claim_writes_the_files_down(state: str) -> None:
    run = getattr(gear, state)()
    before = gear.everything(run.run_id)
    with refused_by("runs_artifacts_are_kept" if run.result_key else "runs_artifacts_need"), transaction.atomic():
        Run.objects.filter(pk=run.pk).update(result_artifacts={"x": {}}, version=F("version") + 1)
    assert gear.everything(run.run_id) == before


@pytest.mark.contract("CAP-05")
@pytest.mark.parametrize(
    ("state", "days", "steps"),
    [("accepted", 1, 0), ("accepted", -1, 1), ("accepted", None, 1), ("reserved", 1, 1), ("claimed", 1, 1)],
    ids=["without a version", "earlier", "to none", "held", "claimed"],
)
def test_cap_05_a_run_is_dated_anew_only_before_its_hold_and_only_later(
    state: str, days: int | None, steps: int
) -> None:
    run = getattr(gear, state)()
    before = gear.everything(run.run_id)
    day = None if days is None else run.spend_day + timedelta(days=days)
    with refused_by("runs_spend_day_is_kept"), transaction.atomic():
        Run.objects.filter(pk=run.pk).update(spend_day=day, version=F("version") + steps)
    assert gear.everything(run.run_id) == before


@pytest.mark.parametrize("column", [column for column in FREE if column != "send_count"])
def test_runs_models_times_move_without_a_version_and_without_a_trace(column: str) -> None:
    run = gear.claimed()
    trace = gear.timeline(run.run_id)
    assert Run.objects.filter(pk=run.pk).update(**{column: "2026-03-01T00:00:00Z"}) == 1
    assert gear.timeline(run.run_id) == trace


def test_dpp_59_a_claim_is_not_decided_a_second_time() -> None:
    run = gear.claimed()
    before = gear.everything(run.run_id)
    for change in (
        {"intent_charge_usd_micros": gear.ACTUAL_MICROS + 1},
        {"intent_status": Status.FAILED, "intent_charge_usd_micros": 5_000, "intent_reason_code": "WORKER_TIMEOUT"},
    ):
        with refused_by("runs_intent_is_kept"), transaction.atomic():
            Run.objects.filter(pk=run.pk).update(**change, version=F("version") + 1)
    assert gear.everything(run.run_id) == before


@pytest.mark.parametrize(
    "change",
    [
        {"actual_cost_usd_micros": 1},
        {"tokens_consumed": 8},
        {"result_key": "elsewhere"},
        {"idempotency_key": None},
        {"finalize_token": "other"},
        {"finalize_stage": Stage.CLAIMED},
        {"finalize_stage": None},
        {"status": Status.FAILED},
        {},
    ],
)
def test_dpp_59_an_ended_run_is_only_disputed_resolved_or_expired(change: dict[str, Any]) -> None:
    run = gear.committed()
    before = gear.everything(run.run_id)
    with refused_by("runs_"), transaction.atomic():
        Run.objects.filter(pk=run.pk).update(**change, version=F("version") + 1)
    with refused_by("runs_"), transaction.atomic():
        Run.objects.filter(pk=run.pk).update(**change, money_state=MoneyState.DISPUTED, version=F("version") + 2)
    assert gear.everything(run.run_id) == before


@pytest.mark.parametrize("state", ["reserved", "working", "claimed", "committed", "expired"])
def test_dpp_59_a_run_with_money_is_never_deleted(state: str) -> None:
    run = getattr(gear, state)()
    before = gear.everything(run.run_id)
    with refused_by("runs_delete_is_legal"), transaction.atomic():
        Run.objects.filter(pk=run.pk).delete()
    assert gear.everything(run.run_id) == before


@pytest.mark.parametrize("state", ["committed", "expired"])
def test_dpp_59_not_even_the_retention_deletes_what_is_young_or_no_tombstone(state: str) -> None:
    run = gear.aged(getattr(gear, state)(), retention_until=86_400 * 364)
    before = gear.everything(run.run_id)
    with refused_by("runs_delete_is_legal"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL dpp.retention = 'on'")
        cursor.execute("DELETE FROM runs WHERE run_id = %s", [run.run_id])
    assert gear.everything(run.run_id) == before


def test_runs_models_history_only_grows() -> None:
    run = gear.reserved()
    before = gear.everything(run.run_id)
    for attempt in (
        lambda: RunHistory.objects.filter(run_id=run.run_id).update(actor="someone else"),
        lambda: RunHistory.objects.filter(run_id=run.run_id).delete(),
    ):
        with refused_by("run_history_is_append_only"), transaction.atomic():
            attempt()
    assert gear.everything(run.run_id) == before


def test_runs_models_disputes_only_grow() -> None:
    run = gear.committed()
    RunDispute.objects.create(run=run, version=5, step="OPENED", actor="operator:kim", reason="wrong answer")
    for attempt in (
        lambda: RunDispute.objects.update(reason="none"),
        lambda: RunDispute.objects.filter(run=run).delete(),
    ):
        with refused_by("run_disputes_are_append_only"), transaction.atomic():
            attempt()
    assert RunDispute.objects.get().reason == "wrong answer"


@pytest.mark.parametrize("missing", ["actor", "reason"])
def test_runs_models_a_dispute_says_who_and_why(missing: str) -> None:
    run = gear.committed()
    values = {"step": "OPENED", "actor": "operator:kim", "reason": "wrong"} | {missing: ""}
    with refused_by("run_disputes_say_who_and_why"), transaction.atomic():
        RunDispute.objects.create(run=run, version=5, **values)


def test_runs_models_history_takes_the_actor_of_each_step() -> None:
    run = gear.committed()
    assert gear.timeline(run.run_id) == [
        (0, "QUEUED", "NONE", None, "api"),
        (1, "QUEUED", "RESERVED", None, "api"),
        (2, "PROCESSING", "RESERVED", None, "worker"),
        (3, "PROCESSING", "RESERVED", "CLAIMED", "worker"),
        (4, "COMPLETED", "SETTLED", "COMMITTED", "worker"),
    ]


def test_runs_models_one_run_for_a_tenants_key() -> None:
    run = gear.accepted(idempotency_key="the-same-key")
    values = values_of((Status.QUEUED, MoneyState.NONE, None), INTENTS[0])
    with refused_by("idx_runs_idem"), transaction.atomic():
        Run.objects.create(
            run_id=uuid.uuid4(), **values | {"tenant_id": run.tenant_id, "idempotency_key": "the-same-key"}
        )
    other = gear.accepted(tenant_id=a_tenant().tenant_id, idempotency_key="the-same-key")
    assert other.run_id != run.run_id


def test_runs_models_many_runs_without_a_key() -> None:
    tenant_id = a_tenant().tenant_id
    assert {gear.accepted(tenant_id=tenant_id, idempotency_key=None).run_id for _ in range(2)} == set(
        Run.objects.values_list("run_id", flat=True)
    )


@pytest.mark.parametrize(("column", "value"), [("timebox_sec", 0), ("timebox_sec", 91), ("min_reliability_score", 1.5)])
def test_runs_models_inputs_stay_within_their_ranges(column: str, value: Any) -> None:
    with refused_by("run_inputs_"), transaction.atomic():
        gear.accept(tenant_id=a_tenant().tenant_id, **{column: value})
    assert not Run.objects.exists()


def test_runs_models_inputs_belong_to_a_run() -> None:
    with refused_by("run_inputs_belong_to_a_run"), transaction.atomic():
        RunInputs.objects.create(
            run_id=uuid.uuid4(), inputs={}, timebox_sec=90, min_reliability_score=0.8, inline=False
        )


def test_runs_models_a_tenant_with_runs_is_kept() -> None:
    run = gear.accepted()
    with pytest.raises(DatabaseError), transaction.atomic():
        run.tenant.delete()


def test_runs_models_every_reason_can_be_stored() -> None:
    values = values_of((Status.PROCESSING, MoneyState.RESERVED, Stage.CLAIMED), INTENTS[1])
    for reason in ReasonCode:
        assert stored(values | {"intent_reason_code": reason}), reason


def test_runs_models_columns_are_the_documented_ones() -> None:
    documented = {
        ("run_id", "uuid", "NO"),
        ("tenant_id", "text", "NO"),
        ("pack_type", "text", "NO"),
        ("profile_version", "text", "NO"),
        ("status", "text", "NO"),
        ("money_state", "text", "NO"),
        ("idempotency_key", "text", "YES"),
        ("payload_hash", "text", "NO"),
        ("version", "bigint", "NO"),
        ("reservation_max_cost_usd_micros", "bigint", "NO"),
        ("actual_cost_usd_micros", "bigint", "YES"),
        ("minimum_fee_usd_micros", "bigint", "NO"),
        ("result_bucket", "text", "YES"),
        ("result_key", "text", "YES"),
        ("result_sha256", "text", "YES"),
        ("retention_until", "timestamp with time zone", "NO"),
        ("lease_token", "text", "YES"),
        ("lease_expires_at", "timestamp with time zone", "YES"),
        ("finalize_token", "text", "YES"),
        ("finalize_stage", "text", "YES"),
        ("finalize_claimed_at", "timestamp with time zone", "YES"),
        ("last_error_reason_code", "text", "YES"),
        ("last_error_detail", "text", "YES"),
        ("trace_id", "text", "YES"),
        ("created_at", "timestamp with time zone", "NO"),
        ("updated_at", "timestamp with time zone", "NO"),
    }
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT column_name, data_type, is_nullable FROM information_schema.columns WHERE table_name = 'runs'"
        )
        assert documented <= set(cursor.fetchall())
        cursor.execute(
            "SELECT column_name, column_default FROM information_schema.columns WHERE table_name = 'runs'"
            "   AND column_name IN ('profile_version', 'version', 'created_at', 'updated_at')"
        )
        assert dict(cursor.fetchall()) == {
            "profile_version": "'v0.4.2.2'::text",
            "version": "0",
            "created_at": "CURRENT_TIMESTAMP",
            "updated_at": "CURRENT_TIMESTAMP",
        }


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("idx_runs_tenant_created", "(tenant_id, created_at DESC)"),
        ("idx_runs_status_lease", "(status, lease_expires_at)"),
        ("idx_runs_idem", "(tenant_id, idempotency_key)"),
    ],
)
def test_runs_models_indexes_are_the_documented_ones(name: str, columns: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT indexdef FROM pg_indexes WHERE indexname = %s", [name])
        (found,) = cursor.fetchone()
        assert f"ON public.runs USING btree {columns}" in str(found)


def test_runs_models_a_lost_trigger_is_found() -> None:
    """`check --deploy` names what the database no longer refuses."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE runs DISABLE TRIGGER runs_step_is_legal")
            cursor.execute("ALTER TABLE runs DROP CONSTRAINT runs_actual_within_reservation")
        found = [str(one.msg) for one in checks.run_checks(include_deployment_checks=True) if one.id == "dpp.E006"]
        transaction.set_rollback(True)
    assert found == [
        "runs has lost runs_actual_within_reservation.",
        "runs has lost runs_step_is_legal.",
    ]


def test_runs_models_terminal_is_what_the_database_calls_ended() -> None:
    assert {status for status, _, stage in LEGAL if stage is Stage.COMMITTED} == TERMINAL
