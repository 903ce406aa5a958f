"""No caller makes a series of a metric: each label has a set of values that is known before (HRD-11)."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pytest
from django.test import Client
from django.urls import URLResolver, get_resolver

from dpp_project import discovery, retention
from dpp_project.http.metrics import KNOWN_METHODS
from dpp_project.jobs import registry as jobs
from dpp_project.lifecycle import alarming
from dpp_project.observe import metrics
from dpp_project.outbox import handlers
from dpp_project.outbox.models import EventDeadLetter
from dpp_project.reasons import ReasonCode
from dpp_project.waiting.until import WaitEnd
from ops.auth_errors import deciding
from ops.auth_errors.states import BEFORE_DECISION, DecisionType
from ops.automations.states import MessageChannel, SourceKind
from ops.tickets.states import RequestType
from ops.workspaces.states import Phase
from runs.packs import registry as packs
from tenants.principals import RefusedKey
from tests.gear.builders.shop import RUNS, Shop, a_body, a_request_key
from tests.gear.builders.tenants import bearer
from tests.gear.servers import urls as urls_of_tests
from tests.unit.test_metrics_page import ROOT, documented

pytestmark = [pytest.mark.contract("HRD-11"), pytest.mark.django_db]

SAMPLE: Final = re.compile(r"^(dpp_\w+)\{(.*)\} ", re.MULTILINE)
LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
FLOOD: Final = 50


def routes(patterns: Iterable[Any], prefix: str = "") -> Iterator[str]:
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, route)
        else:
            yield route


def reasons() -> set[str]:
    return {code.value for code in ReasonCode} | set(EventDeadLetter.Reason)


def allowed() -> dict[str, set[str]]:
    """By label, whatever metric has it."""
    return {
        "method": {*KNOWN_METHODS, "other"},
        # Another test in this process may have asked the addresses that the tests add to the product's own.
        "route": {*routes(get_resolver().url_patterns), *routes(urls_of_tests.urlpatterns), "unmatched"},
        "status": {f"{n}xx" for n in range(1, 6)}
        | {"QUEUED", "PROCESSING", "COMPLETED", "FAILED", "EXPIRED", "CANCELED", "OPEN", "IN_PROGRESS"}
        | {status.value for status in BEFORE_DECISION},
        "kind": {kind.value for kind in RefusedKey} | set(retention.data_kinds()),
        "bucket": {"poll", "submit", "report", "address"},
        "mode": {"open", "closed"},
        "money_state": {"NONE", "RESERVED", "SETTLED", "REFUNDED", "CHARGED", "RELEASED", "DISPUTED"},
        "stage": {"", "CLAIMED", "COMMITTED"},
        "reason": {"", *reasons()},
        "pack": set(packs.packs_for_sale()),
        "end": {"done", "stopped", "left", *WaitEnd, *reasons()},
        "step": {"claim", "commit", "settle"},
        "queue": {"runs", "events", "dead_letters"},
        "job": set(jobs.declared_jobs()),
        "loop": {"reaper", "sweeper", "reconciler", "requeuer", "auditor", "dead-letters", "retention"}
        | {loop.name for module in discovery.discovered_modules("events") for loop in getattr(module, "LOOPS", ())}
        | set(jobs.declared_jobs()),
        "name": set(metrics._collectors),
        "request_type": {kind.value for kind in RequestType},
        "scope": {"all", "one", "tenant"},
        "event_type": set(handlers.event_handlers()),
        "decision": set(DecisionType),
        "phase": set(Phase),
        "source_kind": set(SourceKind),
        "channel": set(MessageChannel),
        "alarm": set(alarming.alarm_checks()),
        "by": {deciding.OPERATOR, deciding.RULE, deciding.CLUSTER},
    }


CODE_ALONE: Final = {"operation", "bound", "what", "answer", "came", "outcome", "why", "service", "state"} | {
    *("of", "host", "disk", "driver"),
}
"""No request reaches these: their values are class names, constants, enumerations and machines of ours."""


def samples(page: str) -> Iterator[tuple[str, str, str]]:
    for metric, labels in SAMPLE.findall(page):
        for name, value in LABEL.findall(labels):
            if name != "le":
                yield metric, name, value


def test_hrd_11_every_label_of_every_metric_is_spoken_for() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    labels = {label for _name, _kind, found in documented(page) for label in found}
    assert labels == allowed().keys() | CODE_ALONE


def flood(shop: Shop, client: Client) -> None:
    good = bearer(shop.issued)
    for n in range(FLOOD):
        client.generic(f"BREW{n}", "/v1/runs")
        client.generic("GET", f"/v1/nothing/{n}", headers=good)
        client.get(f"/{n}/x", headers={"Host": f"host-{n}.example"})
        client.get(f"/v1/runs/{n}", headers=good | {"User-Agent": f"agent {n}"})
        client.get(f"/admin/{n}/")
        client.get("/v1/whoami", headers={"Authorization": f"Bearer dpp_{n:08d}_{'A' * 43}"})
        client.get("/v1/whoami", headers={"Authorization": f"Kind{n} x"})
        shop.submit(a_body(pack_type=f"pack-{n}"))
        shop.submit(a_body(meta={"profile_version": f"P{n}"}), key=a_request_key())
        client.post(RUNS, data=b"{}", content_type=f"application/x-{n}", headers=good)
        shop.get(f"/v1/budget/entries?kind=K{n}")


def test_hrd_11_a_flood_of_inventions_makes_no_series(
    shop: Shop, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.raise_request_exception = False
    flood(shop, client)
    before = set(samples(metrics.render_metrics().decode()))
    flood(shop, client)
    after = set(samples(metrics.render_metrics().decode()))
    assert after == before
    known = allowed()
    strange = {sample for sample in after if sample[1] in known and sample[2] not in known[sample[1]]}
    assert strange == set()
    assert ("dpp_http_request_seconds_count", "method", "other") in after
    assert ("dpp_http_request_seconds_count", "route", "unmatched") in after
