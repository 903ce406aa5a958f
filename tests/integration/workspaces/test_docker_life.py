"""A workspace in Docker as its tenant has it: over the API, with both loops, the host's server and the proxy."""

import contextlib
import http.client
import threading
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import docker as docker_sdk
import pytest
from django.db import connections

from dpp_project.http.client_address import ClientAddresses
from ops.workspaces import naming, offer
from ops.workspaces.drivers.docker.driver import DockerDriver
from ops.workspaces.models import Workspace, WorkspaceVolume
from ops.workspaces.offer import Offer
from ops.workspaces.proxy import admission
from ops.workspaces.proxy.server import ProxyServer
from ops.workspaces.remote.server import WorkspaceServer
from ops.workspaces.rows import driver_rows
from tests.gear.builders.shop import Shop
from tests.gear.builders.tenants import bearer
from tests.gear.builders.workspace_drivers import _daemon, docker_driver
from tests.gear.builders.workspace_loops import loops
from tests.gear.builders.workspace_world import DRIVER_ID
from tests.gear.servers import dockerd
from tests.gear.waiting import wait_until
from tests.integration.workspaces.test_workspaces_api import HERE, made, patched, send

pytestmark = [
    *(pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.django_db(transaction=True)),
    *(pytest.mark.contract("WSP-11", "WSP-12"), pytest.mark.usefixtures("valkey", "aws")),
]
ANOTHER = "dpp-workspace:another"
SERVES = ["python3", "-m", "http.server", "8080"]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[DockerDriver]:
    with docker_driver(images=[dockerd.IMAGE, ANOTHER]) as made_here:
        with contextlib.closing(docker_sdk.APIClient(base_url=_daemon().address, version="1.41")) as api:
            api.tag(dockerd.IMAGE, *ANOTHER.split(":"))
        monkeypatch.setattr(offer, "current_workspace_offer", lambda: Offer("docker", (dockerd.IMAGE, ANOTHER)))
        driver_rows.register_driver(DRIVER_ID, made_here)
        yield made_here


@contextlib.contextmanager
def served(driver: DockerDriver) -> Iterator[int]:
    """By the host's server and its proxy, whose port it is."""
    ends, ports = threading.Event(), list[int]()

    def in_passing(act: Callable[[Any], None], told: Any) -> None:
        try:
            act(told)
        finally:
            connections.close_all()

    server = WorkspaceServer(
        driver, host="127.0.0.1", port=0, tell_address=partial(in_passing, partial(driver_rows.tell_address, DRIVER_ID))
    )
    proxy = ProxyServer(
        driver,
        host="127.0.0.1",
        port=0,
        admit=partial(admission.admit_request, driver_id=DRIVER_ID),
        used=lambda _workspace_id: None,
        addresses=ClientAddresses([]),
        listens=ports.append,
    )
    threads = [threading.Thread(target=one.run, args=(ends,)) for one in (server, proxy)]
    for thread in threads:
        thread.start()
    try:
        yield wait_until(lambda: ports, what="the proxy's port")[0]
    finally:
        ends.set()
        for thread in threads:
            thread.join()


def asked(shop: Shop, port: int, workspace_id: uuid.UUID, path: str) -> tuple[int, str | None, bytes]:
    caller = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(caller):
        caller.request("GET", f"/w/{workspace_id}/8080/{path}", headers=bearer(shop.issued))
        answer = caller.getresponse()
        return answer.status, answer.getheader("retry-after"), answer.read()


def test_wsp_11_a_life_in_docker_over_api_loops_and_proxy(shop: Shop, driver: DockerDriver) -> None:
    with loops(driver, driver_id=DRIVER_ID), served(driver) as port:
        spec = {"command": SERVES, "ports": [8080], "limits": {"memory_mb": 200, "processes": 50}}
        one = uuid.UUID(made(shop, spec=spec)["workspace_id"])
        here = f"{HERE}/{one}"

        def comes_to(phase: str) -> None:
            def is_there() -> bool:
                row = Workspace.objects.get(pk=one)
                return (row.phase, row.operation, row.desired_state) == (phase, "NONE", phase)

            wait_until(is_there, seconds=60, what=phase)

        def ran(script: str) -> str:
            answer = send(shop, "POST", f"{here}/exec", {"argv": ["/bin/sh", "-ec", script]})
            assert (answer.status_code, answer.json()["exit_code"]) == (200, 0), answer.content
            return str(answer.json()["stdout"])

        def home() -> str:
            return WorkspaceVolume.objects.values_list("volume_name", flat=True).get(workspace=one, state="LIVE")

        comes_to("RUNNING")
        assert ran("mkdir -p a && echo first >a/b && id -u") == "1000\n"
        assert wait_until(lambda: asked(shop, port, one, "a/b")[2] == b"first\n", what="its server")
        first = home()
        assert patched(shop, one, {"name": "renamed", "spec": spec | {"image": ANOTHER}}).status_code == 200
        wait_until(lambda: image_of(driver, one) == ANOTHER, seconds=60, what="its other image")
        comes_to("RUNNING")
        assert (home(), ran("cat a/b")) == (first, "first\n"), "another image and name, the same home"
        assert patched(shop, one, {"desired_state": "ARCHIVED"}).status_code == 200
        comes_to("ARCHIVED")
        listing = driver.list()
        assert (listing.containers, [volume for volume in listing.volumes if volume.label]) == ((), [])
        status, seconds, _ = asked(shop, port, one, "a/b")
        assert (status, seconds) == (503, "2"), "it is woken by being asked for"
        comes_to("RUNNING")
        assert wait_until(lambda: asked(shop, port, one, "a/b")[2] == b"first\n", what="its server, restored")
        assert home() != first
        assert send(shop, "GET", f"{here}/logs").json()["content"].count("GET /a/b")
        assert send(shop, "DELETE", here).status_code == 202
        comes_to("DELETED")
        listing = driver.list()
        assert (listing.containers, [volume for volume in listing.volumes if volume.label]) == ((), [])
        assert Workspace.objects.get(pk=one).error_count == 0


def image_of(driver: DockerDriver, workspace_id: uuid.UUID) -> str | None:
    found = driver._inspected(naming.container_name(workspace_id))
    return None if found is None else str(found["Config"]["Image"])
