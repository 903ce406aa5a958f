"""The image that is shipped: built for real, run as compose.yaml says, read-only and without a privilege (DPP-95)."""

import os
import subprocess
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from dpp_project import env_file
from dpp_project.devstack import http, ports
from dpp_project.settings import ENV
from tests.gear.servers import image
from tests.gear.servers.image import Built, Container, Containers
from tests.gear.waiting import wait_until
from tests.proving import proofs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.contract("DPP-95", "HRD-25")]

OURS = {
    "LICENSE",
    "budget",
    "docs",
    "dpp_project",
    "manage.py",
    "ops",
    "pyproject.toml",
    "reaper",
    "requirements",
    "runs",
} | {
    "staticfiles",
    "templates",
    "tenants",
}
PARTS = ("api", "worker", "beat", "events")
READY_SECONDS = 60.0
RUN_SECONDS = 60.0


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    if missing := image.missing_tools():
        pytest.fail(f"{', '.join(missing)} missing; `make setup-image` installs them")
    if os.geteuid() != 0:
        pytest.skip("building an image without an engine takes root")
    with image.built(tmp_path_factory.mktemp("build") / "log") as made:
        yield made


@pytest.fixture(scope="module")
def addresses() -> dict[str, str]:
    """Of the services around this test; everything else is as compose.yaml has it."""
    port = ports.choose_port()
    given = {name: os.environ[name] for name in ("DATABASE_URL", "REDIS_URL", "SQS_ENDPOINT_URL", "S3_ENDPOINT_URL")}
    return given | {
        "S3_PUBLIC_ENDPOINT_URL": str(ENV.S3_ENDPOINT_URL),
        "DPP_QUEUE_URL": ENV.DPP_QUEUE_URL,
        "DPP_DLQ_URL": ENV.DPP_DLQ_URL,
        "DPP_EVENTS_QUEUE_URL": str(ENV.DPP_EVENTS_QUEUE_URL),
        "DPP_EVENTS_DLQ_URL": str(ENV.DPP_EVENTS_DLQ_URL),
        "DPP_BUCKET": ENV.DPP_BUCKET,
        "AWS_ACCESS_KEY_ID": os.environ["AWS_ACCESS_KEY_ID"],
        "AWS_SECRET_ACCESS_KEY": os.environ["AWS_SECRET_ACCESS_KEY"],
        "DPP_API_HOST": "127.0.0.1",
        "DPP_API_PORT": str(port),
        "DPP_ENABLE_PROBE_PACK": "1",
    }


@pytest.fixture(scope="module")
def containers(
    built: Built, addresses: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Containers]:
    made = Containers(built, tmp_path_factory.mktemp("containers"), addresses)
    try:
        yield made
    finally:
        for container in reversed(made.started):
            container.end()


@pytest.fixture(scope="module")
def platform(containers: Containers, addresses: dict[str, str]) -> dict[str, Container]:
    """Everything up: `init` has ended well, and the API is healthy by compose.yaml's own check."""
    init = containers.start("init")
    assert init.exit_code(seconds=READY_SECONDS) == 0, init.said_last()
    parts = {name: containers.start(name) for name in PARTS}
    kind, *check = parts["api"].said["healthcheck"]["test"]
    assert kind == "CMD"
    check = [word.replace(":8000/", f":{addresses['DPP_API_PORT']}/") for word in check]
    # The image's own `python`, as Docker finds it on the PATH.
    wait_until(
        lambda: parts["api"].execute(*check).returncode == 0,
        seconds=READY_SECONDS,
        pause_seconds=0.5,
        what="the health check of compose.yaml to pass",
    )
    return parts


class Customer:
    def __init__(self, containers: Containers, addresses: dict[str, str]) -> None:
        self.url = f"http://127.0.0.1:{addresses['DPP_API_PORT']}"
        self.keys = env_file.read_env_file(containers.folder / "volumes" / "seed" / "env")

    def get(self, path: str) -> dict[str, Any]:
        answer = http.call_api("GET", self.url + path, key=self.keys["DPP_API_KEY"])
        assert answer.status == 200, answer.body
        return answer.body

    def submit(self, pack_type: str, inputs: dict[str, Any]) -> str:
        answer = http.call_api(
            "POST",
            f"{self.url}/v1/runs",
            key=self.keys["DPP_API_KEY"],
            headers={"Idempotency-Key": f"image-{uuid.uuid4().hex}"},
            send={"pack_type": pack_type, "inputs": inputs, "reservation": {"max_cost_usd": "0.2500"}},
        )
        assert answer.status == 202, answer.body
        return str(answer.body["run_id"])

    def run(self, run_id: str) -> dict[str, Any]:
        return self.get(f"/v1/runs/{run_id}")

    def ended(self, run_id: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            run = self.run(run_id)
            return None if run["status"] in {"QUEUED", "PROCESSING"} else run

        return wait_until(look, seconds=RUN_SECONDS, pause_seconds=0.2, what=f"{run_id} to end")


@pytest.fixture
def customer(containers: Containers, addresses: dict[str, str], platform: dict[str, Container]) -> Customer:
    assert set(platform) == set(PARTS)
    return Customer(containers, addresses)


def test_the_image_holds_the_product_and_no_tool(built: Built) -> None:
    app = built.root / "app"
    assert {entry.name for entry in app.iterdir()} == OURS
    assert not (app / "dpp_project" / "devstack").exists()
    assert sorted(app.rglob("*.env")) + sorted(app.rglob(".*")) == []
    assert built.user["uid"] == 10001
    proofs.report(cases=1)
    print(f"image: {built.size_bytes / 1e6:.0f} MB in layers, built in {built.seconds:.0f} s")  # noqa: T201  the figure


def test_every_pack_of_the_image_ends_its_own_example_paid(customer: Customer, containers: Containers) -> None:
    packs = {pack["pack_type"]: pack["example"] for pack in customer.get("/v1/packs")["packs"]}
    assert set(packs) >= {"decision", "compliance", "eval", "ocr", "url", "probe"}
    # url fetches a public page and ocr reads an upload; the probe pack shows what the others cannot: time.
    bought = {name: customer.submit(name, packs[name]) for name in ("decision", "compliance", "eval", "probe")}
    ended = {name: customer.ended(run_id) for name, run_id in bought.items()}
    assert {name: run["status"] for name, run in ended.items()} == dict.fromkeys(bought, "COMPLETED"), ended
    assert all(float(run["cost"]["used"]) > 0 for run in ended.values())
    verify = containers.start("init", ["python manage.py money_verify"])
    assert verify.exit_code(seconds=30) == 0, verify.said_last()
    proofs.report(cases=len(ended) + 1)


def test_a_part_writes_nowhere_and_gains_no_privilege(platform: dict[str, Container], built: Built) -> None:
    for part in platform.values():
        assert "Read-only" in part.execute("touch", "/app/x").stderr
        status = part.execute("cat", "/proc/1/status").stdout
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert fields["Uid"].split() == [str(built.user["uid"])] * 4
        assert {fields[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
        assert fields["NoNewPrivs"] == "1"
        proofs.report(cases=1)


@pytest.mark.contract("DPP-78")
def test_sigterm_ends_each_part_within_the_grace_that_compose_gives(
    customer: Customer, platform: dict[str, Container]
) -> None:
    run_id = customer.submit("probe", {"sleep_ms": 4_000, "cost_usd": "0.0100"})
    wait_until(lambda: customer.run(run_id)["status"] == "PROCESSING", seconds=RUN_SECONDS, what="the run to start")
    graces = {name: int(part.said["stop_grace_period"].removesuffix("s")) for name, part in platform.items()}
    for name in ("worker", "beat", "events"):
        platform[name].signal("TERM")
    for name in ("worker", "beat", "events"):
        assert platform[name].exit_code(seconds=graces[name]) == 0, platform[name].said_last()
    assert customer.run(run_id)["status"] == "COMPLETED"
    platform["api"].signal("TERM")
    assert platform["api"].exit_code(seconds=graces["api"]) == 0, platform["api"].said_last()
    with pytest.raises(OSError):  # noqa: PT011  whichever way a closed port says so
        http.call_api("GET", f"{customer.url}/healthz", key="none")
    proofs.report(cases=len(PARTS))
    assert subprocess.run(["runc", "--root", str(image.STORE / "runc"), "list", "-q"], check=True).returncode == 0
