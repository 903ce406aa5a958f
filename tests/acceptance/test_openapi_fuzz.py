"""The API against its own document: right and wrong requests by the thousand; no 5xx, no undocumented status or body.

`make test` sends some 500, always the same ones. `make fuzz` and `make prove` send DPP_FUZZ_CASES (20,000), other
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

from dpp_project import clock
from dpp_project.pages import openapi
from dpp_project.waiting import until
from dpp_project.waiting.places import Places
from ops.auth_errors import clusters
from ops.tickets import reaper
from ops.workspaces.offer import Offer
from runs.api import events
from runs.bucket import storage
from runs.claims import Claim
from runs.finish.finalization import Committed, finish_claim
from runs.models import Run
from tenants.models import Tenant
from tenants.scopes import Scope
from tenants.webhooks import reach
from tenants.webhooks.models import DeliveryStatus
from tests.gear.builders import auth_errors, automation_shop, recovery, tickets, webhooks, workspace_rows
from tests.gear.builders.shop import Shop, a_request_key, top_up
from tests.gear.builders.tenants import a_key, an_operator_key, bearer
from tests.gear.builders.workspace_rows import sold
from tests.proving import proofs

__all__ = ["sold"]

pytestmark = [pytest.mark.contract("DPP-02", "DPP-03", "DPP-71"), pytest.mark.timeout(900)]

LEAST_CASES: Final = 200
CASES: Final = int(os.environ.get("DPP_FUZZ_CASES", LEAST_CASES))
CHECKS: Final[list[Any]] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
FILE: Final = "text.md"
AT_LEAST: Final = 10 if CASES == LEAST_CASES else 30
"""To each address with something to vary."""
MOST_ROUNDS: Final = 4
"""Of as many; by chance a whole round may be refused."""
# How the cases are shared out. An address without anything to vary is called once.
SHARES: Final = {
    ("post", "/v1/runs"): 18,
    ("get", "/v1/runs"): 12,
    ("get", "/v1/runs/{run_id}"): 11,
    ("get", "/v1/runs/{run_id}/events"): 5,
    ("get", "/v1/runs/{run_id}/artifacts/{name}"): 5,
    ("post", "/v1/runs/{run_id}/cancel"): 9,
    ("delete", "/v1/runs/{run_id}/data"): 5,
    ("post", "/v1/uploads"): 9,
    ("get", "/v1/concurrency/{key}"): 2,
    ("put", "/v1/concurrency/{key}"): 3,
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
    ("get", "/v1/workspaces"): 2,
    ("post", "/v1/workspaces"): 3,
    ("get", "/v1/workspaces/{workspace_id}"): 1,
    ("patch", "/v1/workspaces/{workspace_id}"): 6,
    ("delete", "/v1/workspaces/{workspace_id}"): 1,
    ("post", "/v1/workspaces/{workspace_id}/undelete"): 1,
    ("post", "/v1/workspaces/{workspace_id}/recover"): 1,
    ("get", "/v1/workspaces/{workspace_id}/archives"): 1,
    ("get", "/v1/workspaces/{workspace_id}/events"): 1,
    ("post", "/v1/workspaces/{workspace_id}/exec"): 1,
    ("get", "/v1/workspaces/{workspace_id}/logs"): 1,
    ("post", "/v1/workspaces/{workspace_id}/links"): 1,
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
    ("get", "/api/automations/rules"): 0,
    ("post", "/api/automations/rules"): 3,
    ("post", "/api/automations/rules/try"): 2,
    ("get", "/api/automations/rules/{rule_id}"): 1,
    ("patch", "/api/automations/rules/{rule_id}"): 3,
    ("delete", "/api/automations/rules/{rule_id}"): 1,
    ("get", "/api/automations/sources"): 0,
    ("post", "/api/automations/sources"): 3,
    ("get", "/api/automations/sources/{source}"): 1,
    ("patch", "/api/automations/sources/{source}"): 2,
    ("post", "/api/automations/sources/{source}/rotate"): 2,
    ("post", "/api/automations/sources/{source}/pause"): 1,
    ("post", "/api/automations/sources/{source}/resume"): 1,
    ("post", "/api/automations/sources/{source}/look"): 1,
    ("get", "/api/automations/events"): 2,
    ("post", "/api/automations/events/{event}/again"): 1,
    ("get", "/api/automations/tasks"): 2,
    ("get", "/api/automations/tasks/{task}"): 1,
    ("get", "/api/automations/messages"): 2,
}


NEEDS_A_HOST: Final = {
    ("post", "/v1/workspaces/{workspace_id}/exec"),
    ("get", "/v1/workspaces/{workspace_id}/logs"),
    ("post", "/v1/workspaces/{workspace_id}/links"),
}
"""No workspace runs here and no proxy stands before them, so none is accepted: tests/integration/workspaces. A right
request is answered 503, which the document has."""
LIKELY: Final[dict[str, Callable[[], Any]]] = {
    "url": lambda: webhooks.URL,
    "since": lambda: clock.now().isoformat(),
    "scopes": lambda: ["runs:read"],
    "expires_at": lambda: None,
    "zone": lambda: "Europe/Berlin",
    "spec": lambda: {"env": {"A": "b"}, "command": ["true"], "ports": [8080]},
    "from": lambda: "recheck",
}
"""What chance alone hardly finds: a URL that may be called, a moment of the last 30 days, a zone there is."""


@dataclass
class Caller:
    """A tenant with much money and an operator beside it. What an address names is made when it is asked there."""

    shop: Shop
    operator: dict[str, str]

    def headers(self, method: str, path: str) -> dict[str, str]:
        if (method, path) == ("post", "/api/auth-errors"):
            return bearer(self.shop.issued)
        return self.operator if path.startswith(("/v1/tenants/", "/api/")) else bearer(self.shop.issued)

    def things_at(self, path: str) -> dict[str, str]:
        """Of each thing that this address names, one that is there and can have done to it what is done there."""
        made: dict[str, str] = {}
        if path.endswith("/{name}"):
            return {"run_id": self._run_with_a_file(), "name": FILE}
        if "{run_id}" in path:
            ended = path.endswith("/data")  # what is deleted is an ended run's; the rest is done to an open one
            made["run_id"] = str(self._ended().run_id) if ended else self.shop.submit().json()["run_id"]
        if "{request_id}" in path:
            made["request_id"] = str(tickets.opened().pk)
        if path == "/api/tickets/reaper/latest":
            reaper.reap_tickets()
        if path.startswith("/v1/webhooks"):
            delivery = webhooks.a_delivery(webhooks.an_endpoint(self.shop.tenant), DeliveryStatus.FAILED)
            made |= {"webhook_id": str(delivery.endpoint_id), "delivery_id": str(delivery.pk)}
        if "{auth_error_id}" in path:
            made["auth_error_id"] = str(auth_errors.analyzed(name="Open").pk)
        if path.startswith("/api/auth-errors/clusters"):
            made |= self._clusters(path.rpartition("/")[2])
        if "{key_id}" in path:
            made["key_id"] = str(a_key(self.shop.tenant, scopes=[Scope.RUNS_READ]).key.pk)
        if "{workspace_id}" in path:
            workspace = workspace_rows.one_for(path.rpartition("/")[2], self.shop.tenant)
            made["workspace_id"] = str(workspace.pk)
        of_automations = automation_shop.things_for(self.shop.tenant, path)
        return made | of_automations | {"tenant_id": self.shop.tenant.tenant_id}

    def _clusters(self, act: str) -> dict[str, str]:
        """One into which another was merged; `into` is what a body may name."""
        opened, merged, other = (auth_errors.analyzed(name=name).cluster_id for name in ("Open", "Merged", "Other"))
        assert opened is not None
        assert merged is not None
        clusters.merge_clusters(source_id=merged, into_id=opened, by="operator:ada")
        return {"cluster_id": str({"merge": other, "unmerge": merged}.get(act, opened)), "into": str(opened)}

    def _ended(self) -> Run:
        run = recovery.worker_claimed(self.shop.tenant)
        recovery.completed(run)
        assert finish_claim(Claim.stored(run, actor="worker")) == Committed(4)
        return run

    def _run_with_a_file(self) -> str:
        run = self._ended()
        key = storage.artifact_key(str(run.result_key), FILE)
        storage.shared_run_storage().put(key, b"# a page", content_type="text/markdown")
        return str(run.run_id)


def aim(case: Any, things: dict[str, str]) -> None:
    """Random ids are unknown ids; half of the requests name what there is."""
    asked = case.path_parameters or {}
    asked |= {name: value for name, value in things.items() if name in asked}
    if "If-Match" in (case.headers or {}):
        case.headers["If-Match"] = "*"
    if (case.method.lower(), case.path) == ("post", "/v1/runs"):
        _name_one_key(case)
    if isinstance(case.body, dict):
        likely = {name: make() for name, make in LIKELY.items()} | {"into": things.get("into")}
        case.body |= {name: value for name, value in likely.items() if name in case.body}
        if case.path.startswith("/api/automations/rules"):
            case.body |= automation_shop.likely_rule(things["tenant_id"], case.body)
        if case.path.startswith("/api/automations/sources"):
            case.body |= automation_shop.likely_source(case.body)


def _name_one_key(case: Any) -> None:
    """A submit takes its own key or asks for a derived one, and no schema of two headers can say so."""
    asked = case.headers
    if "Idempotency-Key" in asked:
        asked.pop("DPP-Derive-Key", None)
    elif "DPP-Derive-Key" not in asked:
        asked["Idempotency-Key"] = a_request_key()


@pytest.fixture
def caller(shop: Shop, sold: Offer, monkeypatch: pytest.MonkeyPatch) -> Caller:
    del sold
    # Nothing waits: twenty thousand cases would take days of it, and no answer has another form for having waited.
    for waits in (until, events):
        monkeypatch.setattr(waits, "places", lambda: Places(per_tenant=0))
    names = webhooks.NamesOfTests()
    monkeypatch.setattr(reach, "webhook_network", lambda: names)
    top_up(shop.tenant, 1_000_000_000_000)
    operator = bearer(an_operator_key())
    Tenant.objects.update(submit_rate_per_minute=1_000_000, poll_rate_per_minute=1_000_000)
    return Caller(shop, operator)


@cache
def operations() -> dict[tuple[str, str], Any]:
    """Read from the document once in a process: it takes as long as thirty requests."""
    schema = schemathesis.openapi.from_dict(json.loads(openapi.openapi_document()))
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
    things = caller.things_at(path)

    @settings(
        max_examples=max(1, wanted),
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=_cases(operation, varied=wanted > 0), at_own=st.booleans())
    def send(case: Any, at_own: bool) -> None:  # noqa: FBT001  hypothesis hands it over by name
        if at_own:
            aim(case, things)
        response = case.call(headers=caller.headers(method, path))
        counted[response.status_code] = counted.get(response.status_code, 0) + 1
        is_away = (method, path) in NEEDS_A_HOST and response.status_code == 503
        case.validate_response(response, checks=[one for one in CHECKS if not (is_away and one is not_a_server_error)])

    chance = 0 if CASES == LEAST_CASES else random.SystemRandom().randrange(2**32)
    seed = int(os.environ.get("DPP_FUZZ_SEED") or chance)
    print(f"DPP_FUZZ_SEED={seed}")  # noqa: T201  pytest shows it when the test fails
    for more in range(MOST_ROUNDS):
        hypothesis.seed(seed + more)(send)()
        if (method, path) in NEEDS_A_HOST or any(status < 400 for status in counted):
            break
    proofs.report(cases=sum(counted.values()), seed=seed)
    assert sum(counted.values()) >= max(1, wanted)
    accepted = any(status < 400 for status in counted)
    assert accepted is not ((method, path) in NEEDS_A_HOST), f"nothing was ever accepted: {counted}"


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
    document = json.loads(openapi.openapi_document())
    del document["paths"]["/v1/runs/{run_id}"]["get"]["responses"]["404"]
    schema = schemathesis.openapi.from_dict(document)
    schema.app = get_wsgi_application()
    case = schema["/v1/runs/{run_id}"]["GET"].Case(path_parameters={"run_id": str(uuid.uuid4())})
    response = case.call(headers=bearer(caller.shop.issued))
    with pytest.raises(BaseExceptionGroup) as caught:
        case.validate_response(response, checks=CHECKS)
    assert "Undocumented status code" in str(caught.value.exceptions[0])
