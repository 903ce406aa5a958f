"""/v1/workspaces as a tenant uses it: whole documents, each refusal by its field, nothing of another tenant."""

import json
import uuid
from datetime import timedelta
from typing import Any

import pytest

from dpp_project.audit.models import AuditEntry
from dpp_project.clock import FixedClock
from ops.workspaces import offer
from ops.workspaces.models import Workspace, WorkspaceEvent
from ops.workspaces.offer import Offer
from ops.workspaces.states import ArchiveState, Phase
from tenants.scopes import Scope
from tests.gear.builders.shop import Shop, a_shop
from tests.gear.builders.tenants import a_key, an_operator_key, bearer
from tests.gear.builders.workspace_rows import a_workspace, an_archive, seen, sold, worked_on

__all__ = ["sold"]
pytestmark = [pytest.mark.django_db, pytest.mark.contract("WSP-12"), pytest.mark.usefixtures("sold")]
HERE = "/v1/workspaces"


def send(shop: Shop, method: str, path: str, body: Any = None, **headers: str) -> Any:
    return shop.client.generic(
        method,
        path,
        data="" if body is None else json.dumps(body),
        content_type="application/json",
        headers=bearer(shop.issued) | headers,
    )


def made(shop: Shop, **asked: Any) -> Any:
    response = send(shop, "POST", HERE, {"name": "build-1"} | asked)
    assert response.status_code == 201, response.content
    return response.json()


def patched(shop: Shop, workspace_id: object, body: Any, match: str = "*") -> Any:
    return send(shop, "PATCH", f"{HERE}/{workspace_id}", body, **{"If-Match": match})


def told(response: Any) -> tuple[int, str]:
    return response.status_code, response.json()["reason_code"]


def errors(response: Any) -> dict[str, str]:
    assert response.status_code == 422, response.content
    return {error["field"]: error["detail"] for error in response.json()["errors"]}


def acts() -> list[str]:
    return list(AuditEntry.objects.filter(subject__startswith="workspace").order_by("pk").values_list("act", flat=True))


def test_wsp_12_from_its_creation_to_its_deletion_over_http(shop: Shop, clock: FixedClock) -> None:
    spec = {"env": {"STAGE": "test"}, "command": ["python3", "-V"], "ports": [8080]}
    response = send(shop, "POST", HERE, {"name": "build-1", "spec": spec})
    assert (response.status_code, response.headers["ETag"]) == (201, '"1"')
    new = response.json()
    here = f"{HERE}/{new['workspace_id']}"
    assert new == {
        "workspace_id": new["workspace_id"],
        "tenant_id": shop.tenant.tenant_id,
        "name": "build-1",
        "spec": spec | {"image": None, "limits": {"memory_mb": 1024, "processes": 256}},
        "desired_state": "RUNNING",
        "phase": "PENDING",
        "generation": 1,
        "standby_ttl_seconds": 3600,
        "archive_ttl_seconds": 604800,
        "created_at": new["created_at"],
        "last_access_at": new["last_access_at"],
        **dict.fromkeys(("delete_requested_at", "deleted_at", "observed_at", "op_started_at", "archive_key")),
        "observed_generation": 0,
        "conditions": {},
        "operation": "NONE",
        "op_step": "",
        "op_attempt": 0,
        "op_progress_bytes": 0,
        "error_reason": "",
        "driver_id": None,
        "next": {"said": "No host has taken it yet.", "actor": "host", "at": None},
    }
    assert shop.get(here).json() == new
    assert shop.get(HERE).json() == {"workspaces": [new], "next_cursor": None}
    clock.advance(seconds=90)
    changed = patched(shop, new["workspace_id"], {"desired_state": "STANDBY", "archive_ttl_seconds": None}, '"1"')
    assert (changed.status_code, changed.headers["ETag"]) == (200, '"2"')
    assert changed.json() == new | {
        "desired_state": "STANDBY",
        "archive_ttl_seconds": None,
        "generation": 2,
        "last_access_at": changed.json()["last_access_at"],
    }
    assert changed.json()["last_access_at"] > new["last_access_at"]
    assert told(patched(shop, new["workspace_id"], {"name": "other"}, '"1"')) == (412, "PRECONDITION_FAILED")
    gone = send(shop, "DELETE", here)
    assert (gone.status_code, gone.json()["desired_state"], gone.json()["generation"]) == (202, "DELETED", 3)
    assert gone.json()["delete_requested_at"] == "2026-03-01T12:01:30Z"
    assert send(shop, "DELETE", here).json() == gone.json()
    assert shop.get(HERE).json()["workspaces"] == []
    assert shop.get(f"{HERE}?deleted=true").json()["workspaces"] == [gone.json()]
    assert told(patched(shop, new["workspace_id"], {"desired_state": "RUNNING"})) == (409, "CONFLICT")
    back = send(shop, "POST", f"{here}/undelete", {"desired_state": "RUNNING"})
    assert (back.status_code, back.json()["desired_state"], back.json()["generation"]) == (200, "RUNNING", 4)
    assert told(send(shop, "POST", f"{here}/undelete", {})) == (409, "CONFLICT")
    acts_done = ["workspace created", "workspace changed", "workspace deleted", "workspace undeleted"]
    assert acts() == acts_done
    events = shop.get(f"{here}/events?limit=3").json()
    assert [one["kind"] for one in events["events"]] == ["Undeleted", "DeleteAsked", "Changed"]
    assert {one["by"] for one in events["events"]} == {f"owner:dpp_{shop.issued.key.prefix}"}
    older = shop.get(f"{here}/events?cursor={events['next_cursor']}").json()
    assert [(one["kind"], one["detail"]["spec"]["env"]) for one in older["events"]] == [("Created", ["STAGE"])]
    assert older["next_cursor"] is None


def test_wsp_12_the_same_key_makes_one_workspace(shop: Shop) -> None:
    body = {"name": "build-1"}
    first, second = (send(shop, "POST", HERE, body, **{"Idempotency-Key": "same-key"}) for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 200)
    assert second.headers["Idempotent-Replayed"] == "true"
    assert second.json() == first.json()
    other = send(shop, "POST", HERE, {"name": "build-2"}, **{"Idempotency-Key": "same-key"})
    assert told(other) == (409, "IDEMPOTENCY_CONFLICT")
    assert "header.Idempotency-Key" in errors(send(shop, "POST", HERE, body, **{"Idempotency-Key": "short"}))
    assert told(send(shop, "POST", HERE, body)) == (409, "CONFLICT")
    assert Workspace.objects.count() == 1


WRONG_SPECS: list[tuple[Any, str, str]] = [
    ({"image": "debian"}, "spec.image", "without images"),
    ({"env": {"DPP_SECRET_KEY": "x"}}, "spec.env", "the platform's"),
    ({"env": {"dpp_a": "x"}}, "spec.env", "the platform's"),
    ({"env": {"9": "x"}}, "spec.env", "does not begin with a digit"),
    ({"env": {"A=B": "x"}}, "spec.env", "letters, digits and _"),
    ({"env": {"A": "x" * 4_097}}, "spec.env.A", "at most 4096"),
    ({"env": {f"A{n}": "" for n in range(65)}}, "spec.env", "at most 64"),
    ({"env": {f"A{n}": "x" * 4_000 for n in range(9)}}, "spec.env", "longer than 32768 bytes"),
    ({"env": {"A": 1}}, "spec.env.A", "string"),
    ({"command": ["", "x"]}, "spec.command", "must not be empty"),
    ({"command": ["x"] * 65}, "spec.command", "at most 64"),
    ({"command": "sleep 1"}, "spec.command", "list"),
    ({"ports": [0]}, "spec.ports[0]", "greater than or equal to 1"),
    ({"ports": [65_536]}, "spec.ports[0]", "less than or equal to 65535"),
    ({"ports": [80, 80]}, "spec.ports", "twice"),
    ({"ports": list(range(1, 18))}, "spec.ports", "at most 16"),
    ({"limits": {"memory_mb": 1}}, "spec.limits.memory_mb", "greater than or equal to 64"),
    ({"limits": {"processes": 5_000}}, "spec.limits.processes", "less than or equal to 4096"),
    ({"limits": {"cpus": 1}}, "spec.limits.cpus", "remove it"),
    ({"enviroment": {}}, "spec.enviroment", "remove it"),
]


WRONG_CREATIONS: list[tuple[Any, str, str]] = [
    ({}, "name", "required"),
    ({"name": ""}, "name", "at least 1"),
    ({"name": "a" * 64}, "name", "at most 63"),
    ({"name": "Build"}, "name", "pattern"),
    ({"name": "-a"}, "name", "pattern"),
    ({"name": "a", "desired_state": "PENDING"}, "desired_state", "RUNNING"),
    ({"name": "a", "desired_state": "ARCHIVED"}, "desired_state", "RUNNING"),
    ({"name": "a", "standby_ttl_seconds": 59}, "standby_ttl_seconds", "60"),
    ({"name": "a", "archive_ttl_seconds": 2_592_001}, "archive_ttl_seconds", "2592000"),
    ({"name": "a", "tenant_id": "t_x"}, "tenant_id", "remove it"),
    *[({"name": "a", "spec": spec}, field, said) for spec, field, said in WRONG_SPECS],
]


def test_wsp_12_a_wrong_creation_names_its_field_and_makes_nothing(shop: Shop) -> None:
    for body, field, said in WRONG_CREATIONS:
        assert said in errors(send(shop, "POST", HERE, body))[field]
    assert not Workspace.objects.exists()


WRONG_CHANGES: list[tuple[Any, str, str, str]] = [
    ({}, "*", "body", "at least one of"),
    ({"name": None}, "*", "body", "none but a TTL as null"),
    ({"desired_state": "PENDING"}, "*", "desired_state", "cannot be asked to be PENDING"),
    ({"desired_state": "DELETED"}, "*", "desired_state", "the method DELETE"),
    ({"phase": "RUNNING"}, "*", "phase", "remove it"),
    ({"name": "b"}, "3", "header.If-Match", "ETag"),
    ({"name": "b"}, "", "header.If-Match", "ETag"),
    ({"spec": {"image": "debian"}}, "*", "spec.image", "without images"),
]


def test_wsp_12_a_wrong_change_names_its_field_and_changes_nothing(shop: Shop) -> None:
    new = made(shop)
    for body, match, field, said in WRONG_CHANGES:
        assert said in errors(patched(shop, new["workspace_id"], body, match))[field]
    assert shop.get(f"{HERE}/{new['workspace_id']}").json() == new
    assert acts() == ["workspace created"]


def test_wsp_12_images_are_of_the_allowed_ones(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offer, "current_workspace_offer", lambda: Offer("docker", ("dpp/python:3", "dpp/node:22")))
    assert made(shop)["spec"]["image"] == "dpp/python:3"
    assert made(shop, name="b", spec={"image": "dpp/node:22"})["spec"]["image"] == "dpp/node:22"
    refused = errors(send(shop, "POST", HERE, {"name": "c", "spec": {"image": "evil"}}))
    assert refused == {"spec.image": "is not allowed here; choose of: dpp/python:3, dpp/node:22"}
    monkeypatch.setattr(offer, "current_workspace_offer", lambda: None)
    assert told(send(shop, "POST", HERE, {"name": "c"})) == (503, "SERVICE_UNAVAILABLE")
    assert Workspace.objects.count() == 2


@pytest.mark.contract("WSP-10")
def test_wsp_10_out_of_error_only_an_explicit_discard_deletes(shop: Shop) -> None:
    workspace = a_workspace(shop.tenant)
    here = f"{HERE}/{workspace.pk}"
    refused = send(shop, "DELETE", f"{here}?discard=true")
    assert told(refused) == (409, "CONFLICT")
    seen(workspace, Phase.ERROR)
    assert told(send(shop, "DELETE", here)) == (409, "CONFLICT")
    assert Workspace.objects.get().delete_requested_at is None
    gone = send(shop, "DELETE", f"{here}?discard=true")
    assert (gone.status_code, gone.json()["desired_state"]) == (202, "DELETED")
    assert Workspace.objects.get().discard
    assert send(shop, "DELETE", here).json()["generation"] == 2


@pytest.mark.contract("WSP-10")
def test_wsp_10_one_that_fell_into_error_while_it_is_deleted_may_be_discarded(shop: Shop) -> None:
    workspace = a_workspace(shop.tenant)
    here = f"{HERE}/{workspace.pk}"
    asked_at = send(shop, "DELETE", here).json()["delete_requested_at"]
    worked_on(workspace, error_info={"is_terminal": True, "reason": "Corrupt"})
    assert told(send(shop, "POST", f"{here}/recover", {"from": "recheck"})) == (409, "CONFLICT")
    gone = send(shop, "DELETE", f"{here}?discard=true").json()
    assert gone["delete_requested_at"] == asked_at
    assert "deleted without an archive" in gone["next"]["said"]


@pytest.mark.contract("WSP-10")
def test_wsp_10_seven_days_and_a_free_name_to_undelete(shop: Shop, clock: FixedClock) -> None:
    new = made(shop)
    here = f"{HERE}/{new['workspace_id']}"
    send(shop, "DELETE", here)
    made(shop)
    assert told(send(shop, "POST", f"{here}/undelete", {})) == (409, "CONFLICT")
    clock.advance(seconds=7 * 86_400 - 1)
    back = send(shop, "POST", f"{here}/undelete", {"name": "build-2"})
    assert (back.json()["name"], back.json()["desired_state"]) == ("build-2", "STANDBY")
    send(shop, "DELETE", here)
    clock.advance(seconds=7 * 86_400)
    assert told(send(shop, "POST", f"{here}/undelete", {"name": "build-3"})) == (409, "CONFLICT")


@pytest.mark.contract("WSP-09")
def test_wsp_09_a_recovery_says_from_what_and_only_out_of_error(shop: Shop) -> None:
    workspace = a_workspace(shop.tenant)
    here = f"{HERE}/{workspace.pk}/recover"
    mine, waste = an_archive(workspace), an_archive(workspace, ArchiveState.QUARANTINED)
    others = an_archive(a_workspace(a_shop().tenant))
    assert told(send(shop, "POST", here, {"from": "recheck"})) == (409, "CONFLICT")
    seen(workspace, Phase.ERROR)
    gone = an_archive(workspace, ArchiveState.DELETED)
    for key, said in ((others.pk, "none of this workspace's"), ("none", "none of this"), (gone.pk, "was deleted")):
        assert said in errors(send(shop, "POST", here, {"from": f"archive:{key}"}))["from"]
    assert "from" in errors(send(shop, "POST", here, {"from": "hope"}))
    assert Workspace.objects.get(pk=workspace.pk).recover_generation == 0
    asked = send(shop, "POST", here, {"from": f"archive:{mine.pk}"})
    assert (asked.status_code, asked.json()["generation"]) == (202, 2)
    stored = Workspace.objects.get(pk=workspace.pk)
    assert (stored.recover_generation, stored.recover_from) == (1, f"archive:{mine.pk}")
    shown = shop.get(f"{HERE}/{workspace.pk}/archives").json()["archives"]
    assert [(one["archive_key"], one["state"]) for one in shown] == [
        (waste.pk, "QUARANTINED"),
        (mine.pk, "VERIFIED"),
    ]


def test_wsp_12_a_page_goes_on_where_the_one_before_ended(shop: Shop) -> None:
    rows = [a_workspace(shop.tenant, name=f"w-{number}") for number in range(3)]
    seen(rows[0], Phase.STANDBY)
    first = shop.get(f"{HERE}?limit=2").json()
    second = shop.get(f"{HERE}?limit=2&cursor={first['next_cursor']}").json()
    names = [one["name"] for page in (first, second) for one in page["workspaces"]]
    assert names == ["w-2", "w-1", "w-0"]
    assert second["next_cursor"] is None
    assert [one["name"] for one in shop.get(f"{HERE}?phase=STANDBY").json()["workspaces"]] == ["w-0"]
    assert [one["name"] for one in shop.get(f"{HERE}?name=w-1").json()["workspaces"]] == ["w-1"]


def test_wsp_12_values_of_the_environment_are_shown_to_keys_that_may_write_them(shop: Shop) -> None:
    new = made(shop, spec={"env": {"TOKEN": "s3cr3t"}})
    here = f"{HERE}/{new['workspace_id']}"
    reader = Shop(shop.tenant, a_key(shop.tenant, scopes=[Scope.WORKSPACES_READ]))
    operator = Shop(shop.tenant, an_operator_key())
    for other in (reader, operator):
        assert other.get(here).json()["spec"]["env"] == {"TOKEN": "***"}
        assert "s3cr3t" not in other.get(f"{here}/events").content.decode()
    assert shop.get(here).json()["spec"]["env"] == {"TOKEN": "s3cr3t"}
    assert "s3cr3t" not in "".join(str(one.after) for one in AuditEntry.objects.all())


def test_wsp_12_operators_see_all_and_tenants_do_not_see_which_operator_acted(shop: Shop) -> None:
    workspace = worked_on(a_workspace(shop.tenant))
    WorkspaceEvent.objects.create(workspace=workspace, actor="operator:ada", kind="Changed", detail={})
    operator = Shop(shop.tenant, an_operator_key())
    (shown,) = operator.get(HERE).json()["workspaces"]
    assert (shown["tenant_id"], shown["driver_id"]) == (shop.tenant.tenant_id, "local")
    assert shop.get(HERE).json()["workspaces"][0]["driver_id"] is None
    here = f"{HERE}/{workspace.pk}/events?limit=1"
    assert operator.get(here).json()["events"][0]["by"] == "operator:ada"
    assert shop.get(here).json()["events"][0]["by"] == "operator"
    assert told(send(operator, "DELETE", f"{HERE}/{workspace.pk}")) == (403, "SCOPE_MISSING")


WAYS: list[tuple[str, str, Any]] = [
    ("GET", "", None),
    ("PATCH", "", {"name": "b"}),
    ("DELETE", "", None),
    ("POST", "/undelete", {}),
    ("POST", "/recover", {"from": "empty"}),
    ("GET", "/archives", None),
    ("GET", "/events", None),
]


def test_wsp_12_anothers_and_a_purged_workspace_are_none(shop: Shop) -> None:
    others = a_workspace(a_shop().tenant)
    purged = a_workspace(shop.tenant)
    at = purged.created_at + timedelta(days=7)
    worked_on(purged, deleted_at=at, purged_at=at)
    for method, rest, body in WAYS:
        for workspace_id in (others.pk, purged.pk, uuid.uuid4()):
            response = send(shop, method, f"{HERE}/{workspace_id}{rest}", body, **{"If-Match": "*"})
            assert told(response) == (404, "NOT_FOUND")
    assert Workspace.objects.get(pk=others.pk).generation == 1
