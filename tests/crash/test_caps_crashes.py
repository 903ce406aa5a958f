"""A change of caps killed or cut at every request it sends: whoever comes next makes it good, and nothing is counted
wrongly meanwhile.

The real code in a process of its own, as in test_reaper_cutpoints: one transaction, `caps.lua`, and for a scope that
has none of its caps yet the rebuild of its tenant. Afterwards the change is made again, or only the next hold comes.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest

from budget.caps import enforcing, rows, setting
from budget.caps.setting import CapsSet
from budget.rebuild import gate_watch
from budget.redis import keys, scripts, view
from budget.redis.windows import CapPeriod
from dpp_project.audit.models import AuditEntry
from dpp_project.stores import redis
from tenants import authentication
from tenants.models import ApiKey, SpendCap
from tests.gear.builders import caps, recovery
from tests.gear.builders.shop import PRICE_MICROS, Shop, rich_shop
from tests.gear.builders.tenants import a_key
from tests.gear.faults.cutpoints import Ended, Forge, forge
from tests.gear.faults.wire import Fault
from tests.proving import proofs

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("CAP-07", "CAP-09")]
__all__ = ["forge", "rich_shop"]

SPREAD: Final = 16
CHANGES: Final[dict[CapPeriod, int | None]] = {"day": None, "total": 3 * PRICE_MICROS}


@dataclass
class Scene:
    """A key that has spent, and holds one price, beside what its caps were."""

    shop: Shop
    key: ApiKey
    revision: int
    """Of the caps that stand in Postgres."""


def began(shop: Shop, *, is_first: bool) -> Scene:
    """With a key of its own each time: one that never had a cap, or one whose caps are changed."""
    mine = Shop(shop.tenant, a_key(shop.tenant), shop.client)
    if not is_first:
        caps.put_in_force(shop.tenant, mine.issued.key, limits={"day": 10 * PRICE_MICROS})
    assert mine.submit().status_code == 202
    recovery.empty_queues()
    return Scene(mine, mine.issued.key, revision=0 if is_first else 1)


def change(scene: Scene) -> dict[str, Any]:
    answer = setting.set_caps(
        tenant_id=scene.shop.tenant.pk, lineage_id=scene.key.lineage_id, changes=CHANGES, actor="test"
    )
    assert isinstance(answer, CapsSet)
    return {"enforced": answer.enforced, "revision": answer.revision}


# Who comes next.


def made_again(scene: Scene) -> None:
    assert change(scene)["enforced"]


def next_hold(scene: Scene) -> None:
    """Of a process that has read the key since."""
    authentication.memory.forget()
    assert scene.shop.submit().status_code == 202


NEXT: Final[tuple[Callable[[Scene], None], ...]] = (made_again, next_hold)


def in_force(scene: Scene) -> tuple[int, dict[CapPeriod, int | None]] | None:
    seen = view.look_at_caps(scripts.shared_scripts().client, scene.shop.tenant.pk, str(scene.key.lineage_id))
    return None if seen is None else (seen.revision, dict(seen.limits))


def written(scene: Scene) -> tuple[int, dict[CapPeriod, int | None]] | None:
    row = SpendCap.objects.filter(tenant=scene.shop.tenant, lineage_id=scene.key.lineage_id).first()
    return None if row is None else (row.revision, rows.limits_of(row))


def the_money_is_open_again(scene: Scene) -> None:
    """A rebuild that died leaves its lease, which lapses, and its tenant's gate, which the watch finds."""
    redis.redis_client().delete(keys.REBUILD)
    gate_watch.watch_gates(limit=10)


def struck(scene: Scene, forge: Forge, *, at: int | None, fault: Fault | None, comes: Callable[[Scene], None]) -> Ended:
    ended = forge.run(lambda: change(scene), at=at, fault=fault)
    assert ended.killed == (ended.struck and fault is not None and fault.kills), ended
    stood = written(scene)
    assert (0 if stood is None else stood[0]) in {scene.revision, scene.revision + 1}, "whole, or not at all"
    if ended.answer is not None:
        assert stood is not None
        assert stood[0] == ended.answer["revision"] == scene.revision + 1
        assert not ended.answer["enforced"] or in_force(scene) == stood, "what is answered is so"
    told = AuditEntry.objects.filter(act=setting.CAPS_SET, after__revision=scene.revision + 1)
    assert told.filter(subject=rows.scope_name(scene.shop.tenant.pk, scene.key.lineage_id)).count() == (
        0 if stood is None else stood[0] - scene.revision
    )
    the_money_is_open_again(scene)
    recovery.law_holds(scene.shop.tenant)
    comes(scene)
    assert in_force(scene) == written(scene), "made good"
    recovery.law_holds(scene.shop.tenant)
    return ended


def undisturbed(shop: Shop, forge: Forge, *, is_first: bool) -> int:
    """How many requests it sends; the first time it also loads its scripts, so the second counts."""
    for _ in range(2):
        ended = struck(began(shop, is_first=is_first), forge, at=None, fault=None, comes=made_again)
        assert ended.answer == {"enforced": True, "revision": 1 if is_first else 2}
    return len(ended.requests)


kinds = pytest.mark.parametrize("is_first", [False, True], ids=["changed", "first"])


@kinds
def test_cap_07_any_request_may_be_a_changes_last(rich_shop: Shop, forge: Forge, is_first: bool) -> None:  # noqa: FBT001  by name
    count = undisturbed(rich_shop, forge, is_first=is_first)
    for number, at in enumerate(range(is_first, count, SPREAD)):
        fault, comes = list(Fault)[number % len(Fault)], NEXT[(number // 2 + is_first) % len(NEXT)]
        assert struck(began(rich_shop, is_first=is_first), forge, at=at, fault=fault, comes=comes).struck


@pytest.mark.slow
@pytest.mark.timeout(600)
@kinds
def test_cap_07_every_request_of_a_change_killed_and_cut(rich_shop: Shop, forge: Forge, is_first: bool) -> None:  # noqa: FBT001  by name
    """Each request meets a kill before one of the two who come next and a cut before the other, by turns.

    A first change rebuilds its tenant, which may take a request less than the one that was counted: then that run has
    ended, and says so.
    """
    count, met = undisturbed(rich_shop, forge, is_first=is_first), 0
    for at, (number, comes) in itertools.product(range(count), enumerate(NEXT)):
        fault = list(Fault)[at % 2 + 2 * ((number + at // 2) % 2)]
        ended = struck(began(rich_shop, is_first=is_first), forge, at=at, fault=fault, comes=comes)
        assert ended.struck or (ended.answer is not None and len(ended.requests) <= at), "it sent no such request"
        met += ended.struck
    assert met >= (count - 1) * len(NEXT)
    proofs.report(cases=met)


# A check that cannot fail proves nothing.


def test_a_change_that_is_answered_before_it_is_in_force_is_found(
    rich_shop: Shop, forge: Forge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enforcing, "put_in_force", lambda _row: True)
    with pytest.raises(AssertionError, match="what is answered is so"):
        undisturbed(rich_shop, forge, is_first=False)
