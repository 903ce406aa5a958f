"""Those who wait are woken when their key ends: nothing is told to a key that no longer stands (DPP-80, DPP-81)."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from dpp_project.waiting.until import WaitEnd
from tenants import key_watch
from tenants.models import ApiKey
from tenants.services import IssuedKey
from tests.gear.builders.shop import RUNS, Shop, a_shop
from tests.gear.builders.tenants import KEY_ENDS, revoke
from tests.gear.builders.waiting import a_get, documents, failed, following, queued, started, waiting
from tests.gear.servers.live_api import Api, an_api
from tests.gear.waiting import wait_until

pytestmark = [pytest.mark.contract("DPP-80", "DPP-81"), pytest.mark.django_db(transaction=True)]

ENDS = pytest.mark.parametrize("ends", KEY_ENDS, ids=lambda ends: ends.__name__)


@pytest.fixture(scope="module")
def api(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with an_api(tmp_path_factory.mktemp("keys"), threads=1, limits={}) as api:
        yield api


def is_refused(api: Api, path: str, issued: IssuedKey) -> bool:
    return api.ask(a_get(path, issued)).status == 401


@ENDS
def test_dpp_81_a_stream_is_closed_when_its_key_ends_and_hears_nothing_more(
    api: Api, shop: Shop, ends: Callable[[ApiKey], None]
) -> None:
    run, other = queued(shop), a_shop()
    with ExitStack() as stack:
        theirs = following(api, stack, other, queued(other))
        follower = following(api, stack, shop, run)
        assert [event.name for event in (follower.event(),) if event is not None] == ["QUEUED"]
        ends(shop.issued.key)
        assert follower.events() == [], "closed, and nothing was told"
        path = f"{RUNS}/{run.run_id}/events"
        wait_until(lambda: is_refused(api, path, shop.issued), seconds=10, what="the end of what is remembered")
        first = theirs.event()
        assert first is not None
        assert first.name == "QUEUED", "another's stream goes on"


@ENDS
def test_dpp_80_a_wait_whose_key_ends_is_answered_with_what_was_known_before(
    api: Api, shop: Shop, ends: Callable[[ApiKey], None]
) -> None:
    run = queued(shop)
    with ExitStack() as stack:
        (client,) = waiting(api, stack, shop, run, query="?wait=50")
        ends(shop.issued.key)
        (document,) = documents([client])
    assert (document["status"], document["result"]) == ("QUEUED", None)
    (line,) = [one for one in api.log_lines("request") if one["path"].endswith(str(run.run_id))]
    assert (line["status"], line["wait"]) == (200, "key ended")


def test_dpp_80_a_key_that_ended_before_the_wait_began_and_is_remembered_does_not_stay(api: Api, shop: Shop) -> None:
    run = started(queued(shop))
    assert api.ask(a_get(f"{RUNS}/{run.run_id}", shop.issued)).status == 200, "known to this process from here on"
    revoke(shop.issued.key)
    with ExitStack() as stack:
        (client,) = waiting(api, stack, shop, run, query="?wait=50")
        (document,) = documents([client])
    assert document["status"] == "PROCESSING"
    failed(run)


def test_dpp_80_one_statement_asks_for_all_keys(
    shop: Shop, django_assert_num_queries: Callable[[int], ExitStack]
) -> None:
    other, unknown = a_shop(), "00000000-0000-4000-8000-000000000000"
    watched = {str(one.issued.key.key_id): key_watch.STANDING for one in (shop, other)} | {unknown: key_watch.STANDING}
    with django_assert_num_queries(1):
        assert [(news.key, news.what) for news in key_watch.keys_ended(watched)] == [(unknown, WaitEnd.KEY_ENDED)]
    revoke(other.issued.key)
    assert {news.key for news in key_watch.keys_ended(watched)} == {unknown, str(other.issued.key.key_id)}
