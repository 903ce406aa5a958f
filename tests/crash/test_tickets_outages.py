"""A service that a whole ops cycle does without: what could not be done is done once when the service is back."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final
from urllib.parse import urlsplit

import pytest
from botocore.credentials import Credentials

from dpp_project.aws import sqs_sender
from dpp_project.aws.sqs_sender import Sender
from dpp_project.settings import ENV
from dpp_project.stores import redis
from ops.tickets.models import OpsRunReceipt, ReaperReport
from ops.tickets.states import TicketStatus
from runs.bucket import storage
from tests.gear.builders import recovery
from tests.gear.builders import tickets as gear
from tests.gear.builders.shop import Shop, rich_shop
from tests.gear.faults import ticket_scenes
from tests.gear.faults.proxy import Mode, Proxy
from tests.gear.faults.scenes import quick_surroundings
from tests.gear.faults.ticket_scenes import DEEDS, Deed, quick_seconds, resumed
from tests.proving import proofs

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.contract("TKT-01", "TKT-06", "DPP-39"),
    pytest.mark.usefixtures("quick_surroundings", "quick_seconds"),
]
__all__ = ["quick_seconds", "quick_surroundings", "rich_shop"]

Away = Callable[[Mode, pytest.MonkeyPatch], AbstractContextManager[None]]


@contextmanager
def redis_away(mode: Mode, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with recovery.redis_through_proxy(monkeypatch) as proxy:
        redis.disconnect_redis()
        with proxy.outage(mode):
            yield
    redis.disconnect_redis()


@contextmanager
def s3_away(mode: Mode, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    bucket = storage.shared_run_storage()
    target = urlsplit(str(bucket.endpoint_url))
    with Proxy(str(target.hostname), target.port or 80) as proxy, monkeypatch.context() as patch:
        patch.setattr(bucket, "endpoint_url", proxy.url)
        with proxy.outage(mode):
            yield


@contextmanager
def sqs_away(mode: Mode, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    target = urlsplit(str(ENV.SQS_ENDPOINT_URL))
    with Proxy(str(target.hostname), target.port or 80) as proxy, monkeypatch.context() as patch:
        through = Sender(
            endpoint=proxy.url,
            queue_url=ENV.DPP_QUEUE_URL,
            region=ENV.AWS_REGION,
            credentials=lambda: Credentials("test", "test"),
            timeout_seconds=0.2,
        )
        patch.setattr(sqs_sender, "shared_sender", lambda: through)
        with proxy.outage(mode):
            yield
        through.close()


def needs(deed: Deed, away: Away) -> bool:
    return (deed.name, away) == ("redrive", sqs_away) or (deed.name.startswith("rebuild") and away is redis_away)


SERVICES: Final[tuple[Away, ...]] = (redis_away, s3_away, sqs_away)
WITHOUT: Final = [
    pytest.param(
        deed,
        away,
        id=f"{deed.name}-{away.__name__}",
        marks=[] if needs(deed, away) or number % len(SERVICES) == turn else pytest.mark.slow,
    )
    for number, deed in enumerate(DEEDS)
    for turn, away in enumerate(SERVICES)
]
"""`make test` does each deed without what it needs, and without one of the services by turns."""


@pytest.mark.parametrize(("deed", "away"), WITHOUT)
def test_dpp_39_a_cycle_without_one_service_is_made_up_for(
    rich_shop: Shop, deed: Deed, away: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    mode = (Mode.REFUSE, Mode.RESET)[DEEDS.index(deed) % 2]
    scene = ticket_scenes.begin(deed, rich_shop)
    with away(mode, monkeypatch):
        scene.answers.append(ticket_scenes.act(scene))
    receipt = OpsRunReceipt.objects.get(pk=scene.answers[0]).document
    reaper = next(step for step in receipt["steps"] if step["name"] == "ticket_reaper")
    assert reaper["status"] == ("FAILED" if away is s3_away else "OK")
    assert ReaperReport.objects.filter(published_at__isnull=True).count() == (1 if away is s3_away else 0)
    expected = TicketStatus.IN_PROGRESS if needs(deed, away) else TicketStatus.DONE
    assert (gear.row(scene.ticket.pk).status, receipt["processed"][0]["status"]) == (expected, expected)
    resumed(scene)
    ticket_scenes.holds_true(scene, ending=resumed)
    proofs.report(cases=1)
