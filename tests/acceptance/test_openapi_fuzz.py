"""The API against its own document: right and wrong requests by the thousand; no 5xx, no undocumented status or body.

`make test` sends at least 900, always the same ones. `make fuzz` and `make prove` send DPP_FUZZ_CASES (20,000), other
ones each time; DPP_FUZZ_SEED=<n> sends those of an earlier time again.
"""

import json
import os
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import hypothesis
import pytest
import schemathesis
from django.core.wsgi import get_wsgi_application
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.errors import InvalidSchema
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from dpp_project import clock, pages
from ops.auth_errors import clusters
from ops.tickets import reaper
from runs.bucket import storage
from runs.claims import Claim
from runs.finish.finalization import Committed, finish
from tenants.models import Tenant
from tenants.scopes import Scope
from tenants.webhooks import reach
from tenants.webhooks.models import DeliveryStatus, WebhookDelivery
from tests.gear.builders import auth_errors, recovery, tickets, webhooks
from tests.gear.builders.shop import Shop, top_up
from tests.gear.builders.tenants import a_key, an_operator_key, bearer
from tests.proving import proofs

pytestmark = [pytest.mark.contract("DPP-02", "DPP-03", "DPP-71"), pytest.mark.timeout(900)]

LEAST_CASES: Final = 600
CASES: Final = int(os.environ.get("DPP_FUZZ_CASES", LEAST_CASES))
CHECKS: Final[list[Any]] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
FILE: Final = "text.md"
AT_LEAST: Final = 30
"""To each address with something to vary; fewer may all be refused."""
# How the cases are shared out. An address without anything to vary is called once.
SHARES: Final = {
    ("post", "/v1/runs"): 18,
    ("get", "/v1/runs"): 12,
    ("get", "/v1/runs/{run_id}"): 11,
    ("get", "/v1/runs/{run_id}/artifacts/{name}"): 5,
    ("post", "/v1/runs/{run_id}/cancel"): 9,
    ("post", "/v1/uploads"): 9,
    ("post", "/v1/runs/estimate"): 6,
    ("get", "/v1/budget/entries"): 9,
    ("post", "/v1/tenants/{tenant_id}/topups"): 9,
    ("get", "/api/tickets"): 5,
    ("post", "/api/tickets"): 5,
    ("get", "/api/tickets/{request_id}"): 2,
    ("get", "/api/tickets/reaper/latest"): 0,
    ("post", "/api/tickets/reaper/run"): 0,  # a run each second
    ("get", "/v1/webhooks"): 0,
    ("post", "/v1/webhooks"): 3,
    ("get", "/v1/webhooks/{webhook_id}"): 1,
    ("patch", "/v1/webhooks/{webhook_id}"): 3,
    ("delete", "/v1/webhooks/{webhook_id}"): 1,
    ("post", "/v1/webhooks/{webhook_id}/rotate"): 1,
    ("post", "/v1/webhooks/{webhook_id}/test"): 1,
    ("get", "/v1/webhooks/{webhook_id}/deliveries"): 2,
    ("post", "/v1/webhooks/{webhook_id}/recover"): 2,
    ("post", "/v1/webhooks/deliveries/{delivery_id}/redeliver"): 1,
    ("get", "/v1/budget"): 0,
    ("get", "/v1/usage"): 5,
    ("patch", "/v1/budget"): 2,
    ("put", "/v1/budget/caps"): 2,
    ("get", "/v1/keys"): 2,
    ("post", "/v1/keys"): 3,
    ("put", "/v1/keys/{key_id}/caps"): 2,
    ("post", "/v1/keys/{key_id}/rotate"): 1,
    ("post", "/v1/keys/{key_id}/revoke"): 1,
    ("get", "/v1/packs"): 0,
    ("get", "/v1/audit"): 4,
    ("get", "/v1/whoami"): 0,
    ("get", "/api/auth-errors"): 6,
    ("post", "/api/auth-errors"): 10,
    ("get", "/api/auth-errors/{auth_error_id}"): 2,
    ("post", "/api/auth-errors/{auth_error_id}/decisions"): 4,
    ("get", "/api/auth-errors/clusters"): 3,
    ("get", "/api/auth-errors/clusters/{cluster_id}"): 2,
    ("post", "/api/auth-errors/clusters/{cluster_id}/decisions"): 3,
    ("post", "/api/auth-errors/clusters/{cluster_id}/merge"): 3,
    ("post", "/api/auth-errors/clusters/{cluster_id}/unmerge"): 2,
}


LIKELY: Final[dict[str, Callable[[], Any]]] = {
    "url": lambda: webhooks.URL,
    "since": lambda: clock.now().isoformat(),
    "scopes": lambda: ["runs:read"],
    "expires_at": lambda: None,
    "zone": lambda: "Europe/Berlin",
}
"""What chance alone hardly finds: a URL that may be called, a moment of the last 30 days, a zone there is."""


@dataclass
class Caller:
    """A tenant with much money, a run to ask for, and an operator beside it."""

    shop: Shop
    run_id: str
    run_id_with_a_file: str
    operator: dict[str, str]
    ticket_id: str
    delivery: WebhookDelivery
    auth_error_id: str
    cluster_id: str
    key_id: str
    others: dict[str, str]
    """By what is done to a cluster, one to which it can be done; the rest is done to `cluster_id`."""

    def headers(self, method: str, path: str) -> dict[str, str]:
        if (method, path) == ("post", "/api/auth-errors"):
            return bearer(self.shop.issued)
        return self.operator if path.startswith(("/v1/tenants/", "/api/")) else bearer(self.shop.issued)

    def aim(self, case: Any, *, at_own: bool) -> None:
        """Random ids are unknown ids; half of the requests name what there is."""
        if not at_own:
            return
        own = {
            "run_id": self.run_id,
            "request_id": self.ticket_id,
            "webhook_id": str(self.delivery.endpoint_id),
            "delivery_id": str(self.delivery.pk),
            "auth_error_id": self.auth_error_id,
            "cluster_id": self.others.get(case.path.rpartition("/")[2], self.cluster_id),
            "tenant_id": self.shop.tenant.tenant_id,
            "key_id": self.key_id,
        }
        asked = case.path_parameters or {}
        if "name" in asked:
            own |= {"run_id": self.run_id_with_a_file, "name": FILE}
        asked |= {name: value for name, value in own.items() if name in asked}
        if isinstance(case.body, dict):
            likely = {name: make() for name, make in LIKELY.items()} | {"into": self.cluster_id}
            case.body |= {name: value for name, value in likely.items() if name in case.body}


def _with_a_file(tenant: Tenant) -> str:
    run = recovery.worker_claimed(tenant)
    recovery.completed(run)
    assert finish(Claim.stored(run, actor="worker")) == Committed(4)
    storage.shared().put(storage.artifact_key(str(run.result_key), FILE), b"# a page", content_type="text/markdown")
    return str(run.run_id)


@pytest.fixture
def caller(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Caller:
    names = webhooks.NamesOfTests()
    monkeypatch.setattr(reach, "network", lambda: names)
    Tenant.objects.update(submit_rate_per_minute=1_000_000, poll_rate_per_minute=1_000_000)
    top_up(shop.tenant, 1_000_000_000_000)
    run_id = shop.submit().json()["run_id"]
    operator = bearer(an_operator_key())
    Tenant.objects.update(submit_rate_per_minute=1_000_000, poll_rate_per_minute=1_000_000)
    reaper.run()
    delivery = webhooks.a_delivery(webhooks.an_endpoint(shop.tenant), DeliveryStatus.FAILED)
    error, merged, other = (auth_errors.analyzed(name=name) for name in ("Open", "Merged", "Other"))
    assert error.cluster_id is not None
    assert merged.cluster_id is not None
    clusters.merge(source_id=merged.cluster_id, into_id=error.cluster_id, by="operator:ada")
    return Caller(
        shop,
        run_id,
        _with_a_file(shop.tenant),
        operator,
        ticket_id=str(tickets.opened().pk),
        delivery=delivery,
        auth_error_id=str(error.pk),
        cluster_id=str(error.cluster_id),
        key_id=str(a_key(shop.tenant, scopes=[Scope.RUNS_READ]).key.pk),
        others={"merge": str(other.cluster_id), "unmerge": str(merged.cluster_id)},
    )


@cache
def operations() -> dict[tuple[str, str], Any]:
    """Read from the document once in a process: it takes as long as thirty requests."""
    schema = schemathesis.openapi.from_dict(json.loads(pages.openapi_document()))
    schema.app = get_wsgi_application()
    results: list[Any] = list(schema.get_all_operations())
    found = [result.ok() for result in results]
    return {(operation.method.lower(), operation.path): operation for operation in found}


def test_openapi_fuzz_every_operation_has_its_share() -> None:
    assert set(operations()) == set(SHARES)


@pytest.mark.parametrize(("method", "path"), SHARES)
def test_openapi_fuzz_no_answer_leaves_the_document(caller: Caller, method: str, path: str) -> None:
    operation = operations()[method, path]
    share = SHARES[method, path]
    wanted = max(AT_LEAST, -(-CASES * share // sum(SHARES.values()))) if share else 0
    counted: dict[int, int] = {}

    @settings(
        max_examples=max(1, wanted),
        deadline=None,
        database=None,
        derandomize=CASES == LEAST_CASES,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=_cases(operation, varied=wanted > 0), at_own=st.booleans())
    def send(case: Any, at_own: bool) -> None:  # noqa: FBT001  hypothesis hands it over by name
        caller.aim(case, at_own=at_own)
        response = case.call(headers=caller.headers(method, path))
        counted[response.status_code] = counted.get(response.status_code, 0) + 1
        case.validate_response(response, checks=CHECKS)

    seed = int(os.environ.get("DPP_FUZZ_SEED") or random.SystemRandom().randrange(2**32))
    print(f"DPP_FUZZ_SEED={seed}")  # noqa: T201  pytest shows it when the test fails
    (send if CASES == LEAST_CASES else hypothesis.seed(seed)(send))()
    proofs.report(cases=sum(counted.values()), seed=seed)
    assert sum(counted.values()) >= max(1, wanted)
    assert any(status < 400 for status in counted), f"nothing was ever accepted: {counted}"


def _cases(operation: Any, *, varied: bool) -> Any:
    right = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
    wrong = operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)
    return _drawn(st.one_of(right, wrong)) if varied else right


@st.composite
def _drawn(draw: st.DrawFn, cases: st.SearchStrategy[Any]) -> Any:
    """A contradiction that the generator finds it cannot write down is no case; Hypothesis draws another."""
    try:
        return draw(cases)
    except InvalidSchema:
        reject()


def test_openapi_fuzz_would_notice_what_the_document_does_not_say(caller: Caller) -> None:
    """The checks themselves are checked: with a status struck from the document the same request fails."""
    document = json.loads(pages.openapi_document())
    del document["paths"]["/v1/runs/{run_id}"]["get"]["responses"]["404"]
    schema = schemathesis.openapi.from_dict(document)
    schema.app = get_wsgi_application()
    case = schema["/v1/runs/{run_id}"]["GET"].Case(path_parameters={"run_id": str(uuid.uuid4())})
    response = case.call(headers=bearer(caller.shop.issued))
    with pytest.raises(BaseExceptionGroup) as caught:
        case.validate_response(response, checks=CHECKS)
    assert "Undocumented status code" in str(caught.value.exceptions[0])
