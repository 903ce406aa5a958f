"""deploy/kubernetes: Kubernetes takes it, it gives the platform what it reads, and it holds no secret (DPP-86)."""

from collections.abc import Iterator
from typing import Any

import kubernetes_validate
import pytest
import yaml

from dpp_project import constants, env, serve
from dpp_project.devstack.programs import REPOSITORY

ROOT = REPOSITORY / "deploy" / "kubernetes"
FOLDERS = ("base", "release", "workspaces")
VERSIONS = ("1.31", "1.34")
SECRETS = {
    "DATABASE_URL": "postgresql://dpp:of-a-test@db/dpp",
    "REDIS_URL": "rediss://redis:6379/0",
    "DPP_SECRET_KEY": "of-a-test-" * 5,
    "DPP_ENCRYPTION_KEYS": "Zm9yLXRyeWluZy1vdXQtb25seS1mb3ItdHJ5aW5nLSE=",
    "DPP_METRICS_TOKEN": "of-a-test-of-a-test",
}
GRACES = {"worker": constants.WORKER_GRACE_SECONDS, "api": serve.API_DRAIN_SECONDS}

pytestmark = pytest.mark.contract("DPP-86")
Document = dict[str, Any]


def documents(folder: str) -> Iterator[Document]:
    listed = yaml.safe_load((ROOT / folder / "kustomization.yaml").read_text(encoding="utf-8"))
    for name in listed["resources"]:
        if name.startswith("../"):
            continue
        yield from yaml.safe_load_all((ROOT / folder / name).read_text(encoding="utf-8"))


ALL = [document for folder in FOLDERS for document in documents(folder)]
DEPLOYMENTS = {each["metadata"]["name"]: each for each in ALL if each["kind"] == "Deployment"}
CONFIG: dict[str, str] = next(each["data"] for each in ALL if each["kind"] == "ConfigMap")
PODS = DEPLOYMENTS | {each["metadata"]["name"]: each for each in ALL if each["kind"] == "Job"}


def pod(name: str) -> Document:
    found: Document = PODS[name]["spec"]["template"]["spec"]
    return found


def main_container(name: str) -> Document:
    found: Document = pod(name)["containers"][0]
    return found


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("version", VERSIONS)
def test_dpp_86_kubernetes_knows_every_field(folder: str, version: str) -> None:
    found = list(documents(folder))
    assert found
    for document in found:
        kubernetes_validate.validate(document, version, strict=True)


def test_a_misspelt_field_would_be_found() -> None:
    wrong = yaml.safe_load(yaml.safe_dump(DEPLOYMENTS["worker"]))
    wrong["spec"]["template"]["spec"]["terminationGracePeriod"] = 130
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[0], strict=True)


def test_every_file_is_listed_and_every_image_is_one_release() -> None:
    images = []
    for folder in FOLDERS:
        listed = yaml.safe_load((ROOT / folder / "kustomization.yaml").read_text(encoding="utf-8"))
        there = {path.name for path in (ROOT / folder).glob("*.yaml")} - {"kustomization.yaml"}
        assert {name for name in listed["resources"] if not name.startswith("../")} == there
        assert listed["namespace"] == "dpp"
        images += listed["images"]
    assert len({(one["name"], one["newName"], one["newTag"]) for one in images}) == 1
    assert {each["image"] for name in PODS for each in pod(name)["containers"]} == {"dpp"}
    assert images[0]["newTag"][0].isdigit(), "no tag that floats"


def test_the_parts_are_those_that_the_image_serves() -> None:
    assert set(DEPLOYMENTS) == set(serve.PARTS)
    for name in DEPLOYMENTS:
        assert main_container(name)["args"] == [name]
        assert "command" not in main_container(name), "the image's own entry point"


def environment(name: str) -> dict[str, str]:
    """What the container would find, as the kubelet puts it together."""
    container = main_container(name)
    assert container["envFrom"] == [{"configMapRef": {"name": "dpp"}}, {"secretRef": {"name": "dpp"}}]
    given = CONFIG | SECRETS
    for one in container.get("env", []):
        source = one.get("valueFrom", {})
        if "configMapKeyRef" in source:
            given[one["name"]] = CONFIG[source["configMapKeyRef"]["key"]]
        elif "fieldRef" in source:
            given[one["name"]] = "10.0.3.4"
        else:
            value = str(one["value"])
            for known in ("SERVED_HOSTS", "POD_IP"):
                value = value.replace(f"$({known})", given.get(known, ""))
            given[one["name"]] = value
    return given


def test_dpp_86_each_part_would_start_and_nothing_is_given_that_none_reads() -> None:
    for name in PODS:
        given = environment(name)
        read = env.read_environment(given)
        assert env.unknown_names(given) == [], name
        assert read.DPP_HTTPS
        assert not read.DPP_DEBUG
        assert not read.AWS_ACCESS_KEY_ID, "a role's, not a key"
    assert set(CONFIG) - set(env.Environment.model_fields) == {"PGSSLMODE"}, "libpq's own"
    without = {field for field, about in env.Environment.model_fields.items() if about.is_required()}
    assert without <= set(CONFIG) | set(SECRETS)
    assert env.read_environment(environment("api")).DPP_ALLOWED_HOSTS == ["dpp.example", "10.0.3.4"]


def test_no_secret_is_written_down() -> None:
    assert not [each for each in ALL if each["kind"] == "Secret"]
    assert not set(SECRETS) & set(CONFIG)
    for name in PODS:
        for container in pod(name)["containers"]:
            assert not set(SECRETS) & {one["name"] for one in container.get("env", [])}


def test_dpp_78_each_part_is_given_longer_than_its_own_grace() -> None:
    for name in DEPLOYMENTS:
        before = main_container(name).get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        needed = before + GRACES.get(name, constants.EVENTS_GRACE_SECONDS)
        assert pod(name)["terminationGracePeriodSeconds"] > needed, name


def test_nobody_may_more_than_his_part() -> None:
    for name in PODS:
        said = pod(name)
        assert said["automountServiceAccountToken"] is False
        root = name == "workspaces"
        assert said["securityContext"].get("runAsNonRoot", False) is not root
        assert said["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in said["containers"]:
            may = container["securityContext"]
            assert may["allowPrivilegeEscalation"] is False
            assert may["readOnlyRootFilesystem"] is True
            assert may["capabilities"]["drop"] == ["ALL"]
            adds = root and container["name"] == "workspaces"
            assert may["capabilities"].get("add", []) == (["DAC_OVERRIDE"] if adds else [])
            assert {"memory"} <= set(container["resources"]["limits"]), container["name"]
            assert {"cpu", "memory"} <= set(container["resources"]["requests"])
        hosts = [volume for volume in said["volumes"] if "hostPath" in volume]
        assert bool(hosts) is root


def test_the_user_is_the_images_own() -> None:
    assert "--uid 10001" in (REPOSITORY / "Dockerfile").read_text(encoding="utf-8")
    for name in set(PODS) - {"workspaces"}:
        assert pod(name)["securityContext"]["runAsUser"] == 10_001


def test_the_api_is_sent_requests_only_while_it_is_ready_and_killed_only_when_it_is_dead() -> None:
    probes = {kind: main_container("api")[f"{kind}Probe"]["httpGet"]["path"] for kind in ("readiness", "liveness")}
    assert probes == {"readiness": "/readyz", "liveness": "/healthz"}  # a Postgres that is away restarts nothing


def test_what_is_doubled_is_drained_one_after_the_other_and_spread() -> None:
    budgets = {each["metadata"]["name"]: each["spec"] for each in ALL if each["kind"] == "PodDisruptionBudget"}
    assert set(budgets) == {name for name, each in DEPLOYMENTS.items() if each["spec"]["replicas"] > 1}
    for name, spec in budgets.items():
        assert spec["maxUnavailable"] == 1
        assert spec["selector"] == DEPLOYMENTS[name]["spec"]["selector"]
        assert pod(name)["topologySpreadConstraints"][0]["topologyKey"] == "kubernetes.io/hostname"
    assert DEPLOYMENTS["workspaces"]["spec"]["strategy"] == {"type": "Recreate"}, "never two for one daemon"


def test_policies_close_every_pod_and_leave_out_the_nodes_metadata() -> None:
    policies = {each["metadata"]["name"]: each["spec"] for each in ALL if each["kind"] == "NetworkPolicy"}
    whole = policies["dpp"]
    assert (whole["podSelector"], whole["policyTypes"]) == (
        {"matchLabels": {"app.kubernetes.io/name": "dpp"}},
        ["Ingress", "Egress"],
    )
    for name, each in PODS.items():
        assert each["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/name"] == "dpp", name
    for spec in policies.values():
        for rule in [*spec.get("ingress", []), *spec.get("egress", [])]:
            assert rule.get("from") or rule.get("to"), "from or to anywhere"
            assert rule.get("ports") or "podSelector" in str(rule)
            for peer in rule.get("to", []):
                if peer.get("ipBlock", {}).get("cidr") == "0.0.0.0/0":
                    assert "169.254.0.0/16" in peer["ipBlock"]["except"]


def test_every_part_is_scraped_where_it_answers() -> None:
    for name, each in DEPLOYMENTS.items():
        port = int(each["spec"]["template"]["metadata"]["annotations"]["prometheus.io/port"])
        answering = (
            {one["containerPort"] for container in pod(name)["containers"] for one in container["ports"]}
            if (name == "api")
            else {one["containerPort"] for one in pod(name)["containers"][1]["ports"]}
        )
        assert port in answering
        if name != "api":
            assert pod(name)["containers"][1]["command"] == [
                *("python", "-m", "dpp_project.observe.counts_server", CONFIG["DPP_METRICS_DIR"], str(port))
            ]
