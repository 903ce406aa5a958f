"""What is counted under caps, from the hold to the commit: held, charged, given back, lost, rebuilt and proved."""

import json
import uuid
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

import pytest
import redis
from django.core.management import call_command

from budget import entries, ledger, repairs, services
from budget.caps import setting
from budget.caps.setting import CapsSet
from budget.models import LedgerEntry
from budget.outcomes import AskAgain, CapReached, DateBehind, Held, RunClosed, Settled
from budget.rebuild import rebuild, scopes
from budget.redis import keys, scripts, view
from budget.redis.view import SeenCaps, SeenScopes
from budget.redis.windows import PERIODS, Counted, LeastRevisions
from budget.verification import verify, verify_caps
from budget.verification.verify import DifferenceKind
from dpp_project import clock
from tenants.models import ApiKey, SpendCap
from tests.gear.builders.open_runs import RunsTable, runs_table
from tests.gear.builders.tenants import a_key, a_tenant

__all__ = ["runs_table"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("CAP-09", "CAP-10")]

KEY = uuid.UUID(int=7)
FUNDS = 10_000_000
FAR = 9_000_000


@pytest.fixture
def today() -> date:
    """As the database says it of a tenant in UTC."""
    return clock.now().date()


@pytest.fixture
def tenant_id(runs_table: RunsTable, valkey: redis.Redis) -> str:
    rebuild.rebuild_all()
    tenant = a_tenant()
    made = tenant.tenant_id
    ApiKey.objects.filter(key_id=a_key(tenant).key.key_id).update(lineage_id=KEY)
    entries.top_up(tenant_id=made, amount_micros=FUNDS, reference="first", reason="", actor="test")
    return made


def capped(tenant_id: str, lineage_id: uuid.UUID | None = None, **limits: int | None) -> CapsSet:
    answer = setting.set_caps(tenant_id=tenant_id, lineage_id=lineage_id, changes=limits, actor="test")  # type: ignore[arg-type]
    assert isinstance(answer, CapsSet)
    assert answer.enforced
    return answer


class Story:
    """One tenant's runs, each step as the platform takes it."""

    def __init__(self, runs: RunsTable, tenant_id: str, day: date) -> None:
        self.runs, self.tenant_id, self.day = runs, tenant_id, day

    def accept(self, micros: int, *, day: date | None = None, key: uuid.UUID | None = KEY) -> tuple[str, Counted]:
        when = day or self.day
        run_id = self.runs.accept(self.tenant_id, micros, lineage_id=key, day=when)
        return run_id, Counted(None if key is None else str(key), when)

    def ask(self, run: tuple[str, Counted], micros: int, *, least: LeastRevisions = LeastRevisions()) -> Any:  # noqa: B008
        return services.hold(
            tenant_id=self.tenant_id,
            run_id=run[0],
            reserved_micros=micros,
            created_at_ms=1,
            counted=run[1],
            least=least,
        )

    def hold(self, micros: int, **more: Any) -> tuple[str, Counted]:
        run = self.accept(micros, **more)
        assert isinstance(self.ask(run, micros), Held)
        self.runs.mark_reserved(run[0])
        return run

    def settle(self, run: tuple[str, Counted], micros: int, *, due: int | None = None) -> None:
        claimed = self.runs.claim(run[0])
        assert claimed is not None
        self.take(run, micros)
        assert self.runs.commit(claimed, taken_micros=micros, due_micros=due)

    def take(self, run: tuple[str, Counted], micros: int) -> Settled:
        settled = services.settle(tenant_id=self.tenant_id, run_id=run[0], charge_micros=micros, counted=run[1])
        assert isinstance(settled, Settled)
        return settled

    def give_back(self, run: tuple[str, Counted], micros: int) -> None:
        """A dispute's ADJUST, which waits for its way to the balance."""
        ledger.append_credit(
            tenant_id=self.tenant_id,
            run_id=uuid.UUID(run[0]),
            kind=LedgerEntry.Kind.ADJUST,
            amount_micros=micros,
            reference=f"dispute:{run[0]}",
            reason="",
            actor="test",
            lineage_id=None if run[1].lineage_id is None else uuid.UUID(run[1].lineage_id),
            spend_day=run[1].day,
        )

    def seen(self, key: uuid.UUID | None = KEY) -> SeenCaps:
        found = view.look_at_caps(scripts.shared_scripts().client, self.tenant_id, None if key is None else str(key))
        assert found is not None
        return found

    def scopes(self) -> list[SeenCaps]:
        return [self.seen(None), self.seen()]

    def lose(self, key: uuid.UUID | None = KEY) -> None:
        scripts.shared_scripts().client.delete(keys.caps_key(self.tenant_id, None if key is None else str(key)))

    def differences(self) -> list[tuple[str, int, int]]:
        found = verify.verify_tenant_money(self.tenant_id).differences
        return [(it.kind.value, it.expected_micros, it.found_micros) for it in found]


@pytest.fixture
def uncapped(runs_table: RunsTable, tenant_id: str, today: date) -> Story:
    return Story(runs_table, tenant_id, today)


@pytest.fixture
def story(uncapped: Story, tenant_id: str) -> Story:
    made = uncapped
    capped(tenant_id, day=FAR)
    capped(tenant_id, KEY, day=FAR, month=FAR)
    return made


def test_cap_10_counters_and_books_agree_at_every_stage_and_after_every_rebuild(
    uncapped: Story, today: date, request: pytest.FixtureRequest
) -> None:
    """What a rebuild writes is what the scripts had counted, but for a run that is settled and not committed."""
    yesterday = uncapped.hold(1_000, day=today - timedelta(days=1), key=None)
    story: Story = request.getfixturevalue("story")

    def agree() -> None:
        assert story.differences() == []
        counted = story.scopes()
        assert isinstance(rebuild.rebuild_tenant(story.tenant_id), rebuild.Rebuilt)
        assert story.scopes() == counted
        assert story.differences() == []

    agree()
    first = story.hold(250_000)
    agree()
    of_tenant = story.hold(40_000, key=None)
    story.settle(first, 60_000)
    agree()
    story.settle(yesterday, 1_000)
    agree()
    story.give_back(first, 60_000)
    assert story.differences() == [], "the credit is on its way"
    entries.replay_pending(limit=10, older_than=timedelta(0))
    agree()
    much = story.hold(90_000)
    story.settle(much, 90_000, due=5_000)
    assert story.differences() == [], "what was taken too much is on its way"
    entries.replay_pending(limit=10, older_than=timedelta(0))
    agree()
    claimed = story.runs.claim(of_tenant[0])
    assert claimed is not None
    services.refund(tenant_id=story.tenant_id, run_id=of_tenant[0], was_held=True, counted=of_tenant[1])
    story.runs.commit(claimed, taken_micros=0)
    agree()
    assert (story.seen().used["day"], story.seen().counted["total"]) == (5_000, 5_000)
    assert story.seen(None).used["total"] == 6_000


def test_cap_09_a_settled_run_that_is_not_committed_is_held_again_until_its_finisher_settles(story: Story) -> None:
    run = story.hold(250_000)
    claimed = story.runs.claim(run[0])
    assert claimed is not None
    story.take(run, 60_000)
    assert (story.seen().counted["day"], story.differences()) == (60_000, [])
    story.lose()
    rebuild.rebuild_tenant(story.tenant_id)
    assert (story.seen().used["day"], story.seen().counted["day"], story.differences()) == (0, 250_000, [])
    assert story.take(run, 60_000).again is False
    assert (story.seen().used["day"], story.seen().counted["day"]) == (60_000, 60_000)


@pytest.mark.parametrize("key", [None, KEY], ids=["tenant", "key"])
@pytest.mark.parametrize("how", ["lost", "cut", "flushed"])
def test_cap_09_a_lost_scope_is_refused_and_counted_anew(story: Story, how: str, key: uuid.UUID | None) -> None:
    story.settle(story.hold(250_000), 60_000)
    counted, client = story.scopes(), scripts.shared_scripts().client
    if how == "flushed":
        client.flushall()
    elif how == "cut":
        client.hdel(keys.caps_key(story.tenant_id, None if key is None else str(key)), "used")
    else:
        story.lose(key)
    run = story.accept(1_000)
    least = LeastRevisions(1, 1)
    while not isinstance(answer := story.ask(run, 1_000, least=least), AskAgain):
        assert not isinstance(answer, Held), "let through uncounted"
        rebuild.rebuild_all()
        if story.scopes() == counted:
            break
    assert story.scopes() == counted
    assert isinstance(story.ask(run, 1_000, least=least), Held)


def test_cap_09_more_scopes_than_are_counted_at_once_are_all_counted(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scopes, "AT_ONCE", 1)
    story.settle(story.hold(250_000), 60_000)
    story.hold(1_000)
    counted = story.scopes()
    for key in (None, KEY):
        story.lose(key)
    assert isinstance(rebuild.rebuild_tenant(story.tenant_id), rebuild.Rebuilt)
    assert (story.scopes(), counted[0].counted["day"]) == (counted, 61_000)


@pytest.mark.contract("CAP-07")
def test_cap_07_a_change_that_died_before_redis_is_made_good_by_the_next_hold(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.settle(story.hold(250_000), 60_000)
    with monkeypatch.context() as dying:
        dying.setattr(scripts.Scripts, "put_caps", lambda *_, **__: pytest.fail("died"))
        with pytest.raises(pytest.fail.Exception):
            capped(story.tenant_id, KEY, day=60_500)
    run = story.accept(1_000)
    assert isinstance(story.ask(run, 1_000, least=LeastRevisions(1, 2)), AskAgain)
    refused = story.ask(run, 1_000, least=LeastRevisions(1, 2))
    assert refused == CapReached("key", "day", 60_500, 60_000, 60_000, story.day)
    assert isinstance(story.ask(story.accept(500), 500), Held), "the last micro can be spent"


@pytest.mark.contract("CAP-08")
def test_cap_08_ending_twice_counts_once(story: Story) -> None:
    run = story.hold(250_000)
    story.settle(run, 60_000)
    once = story.scopes()
    assert story.take(run, 60_000).again
    services.refund(tenant_id=story.tenant_id, run_id=run[0], counted=run[1])
    late = story.accept(5_000)
    services.refund(tenant_id=story.tenant_id, run_id=late[0], counted=late[1])
    assert isinstance(story.ask(late, 5_000), RunClosed)
    entries.adjust_balance(tenant_id=story.tenant_id, amount_micros=9, reference="by hand", reason="why", actor="test")
    assert story.scopes() == once


@pytest.mark.contract("CAP-05")
def test_cap_05_a_clock_that_was_set_back_opens_no_window_twice(story: Story, today: date) -> None:
    """Tomorrow was spent on before the clock went back: a rebuild today does not forget it for tomorrow."""
    tomorrow = today + timedelta(days=1)
    capped(story.tenant_id, KEY, day=100_000)
    story.settle(story.hold(80_000, day=tomorrow), 80_000)
    assert story.ask(story.accept(50_000), 50_000) == DateBehind(tomorrow)
    for lost in (KEY, None):
        story.lose(lost)
    rebuild.rebuild_tenant(story.tenant_id)
    assert (story.seen().day, story.seen().used["day"]) == (tomorrow, 80_000)
    unheld = story.accept(1, day=tomorrow + timedelta(days=1))
    rebuild.rebuild_tenant(story.tenant_id)
    assert (story.seen().day, story.seen().used["day"]) == (unheld[1].day, 0), "a row that may be held is looked at too"


DRIFTS = [
    "day used",
    "week used",
    "month counted",
    "total counted",
    "day limits",
    "month limits",
    "revision",
    "all of it",
]


@pytest.mark.parametrize("field", DRIFTS)
def test_cap_10_what_drifted_is_found_and_mended(story: Story, field: str) -> None:
    story.settle(story.hold(250_000), 60_000)
    right, client, name = story.seen(), scripts.shared_scripts().client, keys.caps_key(story.tenant_id, str(KEY))
    if field == "all of it":
        client.delete(name)
        assert story.differences() == [], "caps that were changed just now may be on their way"
        verify_caps_row_is_old(story)
    elif field == "revision":
        client.hincrby(name, field, 1)
    else:
        period, four = field.split()
        numbers = str(client.hget(name, four)).split()
        numbers[PERIODS.index(period)] = str(int(numbers[PERIODS.index(period)]) + 1)
        client.hset(name, four, " ".join(numbers))
    kinds = {"used": "CAP_USED", "limits": "CAP_LIMITS", "revision": "CAP_LIMITS"}
    kind = kinds.get(field.rsplit(maxsplit=1)[-1], "CAP_COUNTED")
    found = verify.verify_tenant_money(story.tenant_id).differences
    assert [it.kind for it in found] == [DifferenceKind(kind)]
    assert found[0].where is not None
    assert found[0].where.startswith(str(KEY))
    assert verify.verify_tenant_money(story.tenant_id).drift_micros == 0, "the money itself is right"
    assert isinstance(repairs.rebuild_by_hand(story.tenant_id, actor="test"), rebuild.Rebuilt)
    assert (story.seen(), story.differences()) == (right, [])


def test_cap_10_the_command_mends_what_is_counted_where_the_balance_is_right(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    story.settle(story.hold(250_000), 60_000)
    right = story.seen()
    scripts.shared_scripts().client.hset(keys.caps_key(story.tenant_id, str(KEY)), "counted", "60001 60000 60000 60000")
    capsys.readouterr()
    call_command("money_verify", "--tenant", story.tenant_id, "--law-only", "--repair", "--json")
    told = json.loads(capsys.readouterr().out)
    assert [(it["kind"], it["expected_micros"], it["found_micros"], it["where"]) for it in told["repaired"]] == [
        ("CAP_COUNTED", 60_000, 60_001, f"{KEY}: day")
    ]
    assert (told["differs"], told["differences"], story.seen()) == (0, [], right)


def test_cap_10_many_scopes_are_compared_in_turns_and_the_balance_is_told_once(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All at once they would take longer than a busy tenant stands still."""
    monkeypatch.setattr(verify_caps, "AT_ONCE", 1)
    looked, real = [], verify_caps.look_at_cap_scopes

    def look(client: redis.Redis, tenant_id: str, names: Sequence[str | None]) -> SeenScopes:
        looked.append(len(names))
        return real(client, tenant_id, names)

    monkeypatch.setattr(verify_caps, "look_at_cap_scopes", look)
    story.settle(story.hold(250_000), 60_000)
    assert (story.differences(), looked) == ([], [1, 1])
    for key in (None, KEY):
        scripts.shared_scripts().client.hset(
            keys.caps_key(story.tenant_id, None if key is None else str(key)), "used", "0 0 0 0"
        )
    scripts.shared_scripts().client.decrby(keys.balance_key(story.tenant_id), 5)
    kinds = [kind for kind, *_ in story.differences()]
    assert (kinds.count("BALANCE"), kinds.count("CAP_USED"), len(kinds)) == (1, 8, 9)


def verify_caps_row_is_old(story: Story) -> None:

    SpendCap.objects.filter(tenant_id=story.tenant_id).update(changed_at=clock.now() - timedelta(hours=1))
