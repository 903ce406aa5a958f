"""deploy/aws: what the stack would make is what `provision` wants, and its roles may what the code calls (DPP-86)."""

import ast
import io
import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.session
import pytest
import yaml
from botocore import xform_name
from django.core.management import call_command

from dpp_project.aws import clients, provisioning
from dpp_project.devstack.programs import REPOSITORY
from dpp_project.env import Environment
from dpp_project.settings import ENV

TEMPLATE = REPOSITORY / "deploy" / "aws" / "platform.yaml"
PRODUCT = ("dpp_project", "tenants", "budget", "runs", "reaper", "ops")
QUEUES = {
    "Runs": "DPP_QUEUE_URL",
    "Express": "DPP_EXPRESS_QUEUE_URL",
    "RunsDeadLetters": "DPP_DLQ_URL",
    "Events": "DPP_EVENTS_QUEUE_URL",
    "EventsDeadLetters": "DPP_EVENTS_DLQ_URL",
}
BUCKETS = {"Results": "DPP_BUCKET", "Archives": "DPP_ARCHIVE_BUCKET"}
PROVISIONING = "dpp_project/aws/provisioning.py"
ACTIONS = {
    "sqs": {
        "change_message_visibility_batch": "sqs:ChangeMessageVisibility",
        "delete_message": "sqs:DeleteMessage",
        "delete_message_batch": "sqs:DeleteMessage",
        "get_queue_attributes": "sqs:GetQueueAttributes",
        "get_queue_url": "sqs:GetQueueUrl",
        "receive_message": "sqs:ReceiveMessage",
        "send_message": "sqs:SendMessage",
        "send_message_batch": "sqs:SendMessage",
        "create_queue": "sqs:CreateQueue",
        "set_queue_attributes": "sqs:SetQueueAttributes",
    },
    "s3": {
        "abort_multipart_upload": "s3:AbortMultipartUpload",
        "complete_multipart_upload": "s3:PutObject",
        "create_bucket": "s3:CreateBucket",
        "create_multipart_upload": "s3:PutObject",
        "delete_object": "s3:DeleteObject",
        "delete_objects": "s3:DeleteObject",
        "get_bucket_encryption": "s3:GetEncryptionConfiguration",
        "get_bucket_lifecycle_configuration": "s3:GetLifecycleConfiguration",
        "get_object": "s3:GetObject",
        "get_public_access_block": "s3:GetBucketPublicAccessBlock",
        "head_bucket": "s3:ListBucket",
        "head_object": "s3:GetObject",
        "list_multipart_uploads": "s3:ListBucketMultipartUploads",
        "list_objects_v2": "s3:ListBucket",
        "put_bucket_encryption": "s3:PutEncryptionConfiguration",
        "put_bucket_lifecycle_configuration": "s3:PutLifecycleConfiguration",
        "put_object": "s3:PutObject",
        "put_public_access_block": "s3:PutBucketPublicAccessBlock",
        "upload_part": "s3:PutObject",
    },
}
"""What AWS' authorization reference asks for, of each operation. A call that is not here fails the test by its name."""
CHANGING = ("sqs:CreateQueue", "sqs:SetQueueAttributes", "s3:CreateBucket", "s3:Put")

pytestmark = pytest.mark.contract("DPP-86")


class _Template(yaml.SafeLoader):
    """CloudFormation's short forms, as pairs of their name and what they are given."""


_Template.add_multi_constructor("!", lambda loader, tag, node: (tag, loader.construct_scalar(node)))
RESOURCES: dict[str, Any] = yaml.load(TEMPLATE.read_text(encoding="utf-8"), Loader=_Template)["Resources"]  # noqa: S506


def properties(name: str) -> dict[str, Any]:
    found: dict[str, Any] = RESOURCES[name]["Properties"]
    return found


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[Environment]:
    """Names that nothing has yet; gone afterwards."""
    name = f"stack-{uuid.uuid4().hex[:12]}"
    base = str(ENV.SQS_ENDPOINT_URL).rstrip("/") + "/000000000000"
    urls = {variable: f"{base}/{name}-{resource.lower()}" for resource, variable in QUEUES.items()}
    env = ENV.model_copy(update=urls | {"DPP_BUCKET": name, "DPP_ARCHIVE_BUCKET": f"{name}-archives"})
    monkeypatch.setattr(provisioning, "ENV", env)
    yield env
    sqs, s3 = clients.sqs_client(), clients.new_s3(env.S3_ENDPOINT_URL)
    for url in urls.values():
        sqs.delete_queue(QueueUrl=url)
    for bucket in (env.DPP_BUCKET, env.DPP_ARCHIVE_BUCKET):
        s3.delete_bucket(Bucket=bucket)


def make_queues(env: Environment) -> None:
    """As the stack would: those without a redrive first."""
    sqs: Any = clients.sqs_client()
    arns: dict[str, str] = {}
    for resource in sorted(QUEUES, key=lambda name: "RedrivePolicy" in properties(name)):
        said = properties(resource) | {}
        said.pop("QueueName")
        if policy := said.get("RedrivePolicy"):
            tag, target = policy["deadLetterTargetArn"]
            assert tag == "GetAtt"
            arn = arns[target.removesuffix(".Arn")]
            said["RedrivePolicy"] = json.dumps({**policy, "deadLetterTargetArn": arn})
        url = str(getattr(env, QUEUES[resource]))
        made = sqs.create_queue(
            QueueName=url.rpartition("/")[2], Attributes={key: str(value) for key, value in said.items()}
        )["QueueUrl"]
        found = sqs.get_queue_attributes(QueueUrl=made, AttributeNames=["QueueArn"])
        arns[resource] = found["Attributes"]["QueueArn"]


def as_s3_has_it(rule: dict[str, Any]) -> dict[str, Any]:
    more = {"Expiration": {"Days": rule["ExpirationInDays"]}} if "ExpirationInDays" in rule else {}
    kept: dict[str, Any] = {key: rule[key] for key in ("Status", "AbortIncompleteMultipartUpload") if key in rule}
    return {"ID": rule["Id"], "Filter": {"Prefix": rule.get("Prefix", "")}, **kept, **more}


def make_buckets(env: Environment) -> None:
    s3: Any = clients.new_s3(env.S3_ENDPOINT_URL)
    for resource, variable in BUCKETS.items():
        said, bucket = properties(resource), getattr(env, variable)
        s3.create_bucket(Bucket=bucket)
        s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=said["PublicAccessBlockConfiguration"])
        rules = said["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        s3.put_bucket_encryption(
            Bucket=bucket,
            ServerSideEncryptionConfiguration={
                "Rules": [
                    {"ApplyServerSideEncryptionByDefault": rule["ServerSideEncryptionByDefault"]} for rule in rules
                ]
            },
        )
        s3.put_bucket_lifecycle_configuration(
            Bucket=bucket,
            LifecycleConfiguration={"Rules": [as_s3_has_it(rule) for rule in said["LifecycleConfiguration"]["Rules"]]},
        )


@pytest.mark.django_db
def test_dpp_86_provision_finds_nothing_to_change_in_what_the_stack_makes(fresh: Environment) -> None:
    make_queues(fresh)
    make_buckets(fresh)
    said = io.StringIO()
    call_command("provision", "--dry-run", "--json", stdout=said)
    assert json.loads(said.getvalue())["changes"] == []


def test_cfn_lint_accepts_it() -> None:
    program = Path(sys.executable).with_name("cfn-lint")
    done = subprocess.run(
        [program, "--regions", "eu-central-1", "us-east-1", "--", TEMPLATE], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def called() -> dict[str, set[str]]:
    """Every operation of SQS and S3 that is named in the product, by the file that names it."""
    session: Any = botocore.session.get_session()
    operations = {
        name: service
        for service in ("sqs", "s3")
        for operation in session.get_service_model(service).operation_names
        for name in (xform_name(operation), operation)
    }
    found: dict[str, set[str]] = {}
    for app in PRODUCT:
        for path in (REPOSITORY / app).rglob("*.py"):
            where = path.relative_to(REPOSITORY).as_posix()
            if where.startswith("dpp_project/devstack/"):
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "value", None)
                if isinstance(name, str) and name in operations:
                    word = name if name.islower() else xform_name(name)
                    found.setdefault(where, set()).add(ACTIONS[operations[name]][word])
    return found


def allowed(role: str) -> set[str]:
    (policy,) = properties(role)["Policies"]
    return {action for statement in policy["PolicyDocument"]["Statement"] for action in statement["Action"]}


def test_dpp_86_the_platform_may_what_it_calls_and_no_more() -> None:
    calls = called()
    assert len(calls) >= 10
    assert allowed("PlatformRole") == {
        action for where, actions in calls.items() if where != PROVISIONING for action in actions
    }


def test_dpp_86_provision_may_look_at_all_and_change_nothing() -> None:
    looks = {action for action in called()[PROVISIONING] if not action.startswith(CHANGING)}
    assert allowed("ProvisionRole") == looks


def test_no_role_reaches_beyond_its_own_queues_and_buckets() -> None:
    ours = set(QUEUES) | set(BUCKETS)
    for role in ("PlatformRole", "ProvisionRole"):
        (policy,) = properties(role)["Policies"]
        for statement in policy["PolicyDocument"]["Statement"]:
            assert not [action for action in statement["Action"] if "*" in action]
            for tag, target in statement["Resource"]:
                assert tag in {"GetAtt", "Sub"}
                assert target.removeprefix("${").partition(".")[0] in ours


def test_what_the_stack_made_outlives_it() -> None:
    for name in [*QUEUES, *BUCKETS]:
        assert RESOURCES[name]["DeletionPolicy"] == RESOURCES[name]["UpdateReplacePolicy"] == "Retain"
