"""Queues and bucket as the platform needs them: made where missing, repaired where they drifted, else left alone.

Each step looks first, so a death between two calls is healed by calling again. Lifecycle rules that are not ours stay.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

from dpp_project import constants, retention
from dpp_project.aws import clients
from dpp_project.env import Environment
from dpp_project.process_env import ENV

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

READ_TIMEOUT_SECONDS = 10
ATTEMPTS = 3
DLQ_RETENTION_SECONDS = 14 * 86_400
LATER = "(the DLQ's ARN, once it exists)"
RUNS_QUEUES = ("DPP_QUEUE_URL", "DPP_DLQ_URL", "DPP_EXPRESS_QUEUE_URL")
EVENTS_QUEUES = ("DPP_EVENTS_QUEUE_URL", "DPP_EVENTS_DLQ_URL")

NOT_SUPPORTED = frozenset({"NotImplemented", "MethodNotAllowed", "501"})
BLOCKED = {"BlockPublicAcls": True, "IgnorePublicAcls": True, "BlockPublicPolicy": True, "RestrictPublicBuckets": True}
ABORTING: Final[dict[str, Any]] = {
    "ID": "dpp-abort-multipart",
    "Status": "Enabled",
    "Filter": {"Prefix": ""},
    "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": constants.MULTIPART_ABORT_DAYS},
}


@dataclass(frozen=True, slots=True)
class Change:
    resource: str
    field: str
    found: object
    wanted: object

    def __str__(self) -> str:
        return f"{self.resource}: {self.field}: {self.found or 'none'} -> {self.wanted}"


@dataclass(frozen=True, slots=True)
class Provisioned:
    changes: list[Change]
    remarks: list[str]


class CannotProvision(Exception):  # noqa: N818  the message says all
    """Names the endpoint, the variable that sets it, and the fault."""

    def __init__(self, *, variable: str, detail: str, unreachable: bool = False) -> None:
        super().__init__(f"{variable}: {detail}")
        self.variable = variable
        self.detail = detail
        self.unreachable = unreachable


ProvisionStep = tuple[Change, Callable[[], object]]


def provision_aws(*, dry_run: bool) -> Provisioned:
    """Lists each difference from what is wanted and, unless it is a dry run, repairs it."""
    env = ENV
    sqs = clients.new_sqs(read_timeout_seconds=READ_TIMEOUT_SECONDS, attempts=ATTEMPTS)
    s3 = clients.new_s3(env.S3_ENDPOINT_URL, attempts=ATTEMPTS)
    changes: list[Change] = []
    remarks: list[str] = []
    for variable, steps in (
        ("SQS_ENDPOINT_URL", _queues(sqs, env, remarks)),
        ("S3_ENDPOINT_URL", _buckets(s3, env, remarks)),
    ):
        try:
            for change, make in steps:
                if not dry_run:
                    make()
                changes.append(change)
        except (BotoCoreError, ClientError) as error:
            raise _explained(error, variable, getattr(env, variable)) from error
    return Provisioned(changes, remarks)


def _explained(error: BotoCoreError | ClientError, variable: str, endpoint: str | None) -> CannotProvision:
    where = endpoint or f"AWS in {ENV.AWS_REGION}"
    if isinstance(error, ClientError):
        code = error.response.get("Error", {}).get("Code", "?")
        return CannotProvision(variable=variable, detail=f"{where} refused {error.operation_name}: {code}")
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return CannotProvision(variable="AWS_ACCESS_KEY_ID", detail="no credentials were found")
    return CannotProvision(
        variable=variable, detail=f"{where} does not answer ({type(error).__name__})", unreachable=True
    )


# Queues


def _queues(sqs: "SQSClient", env: Environment, remarks: list[str]) -> Iterator[ProvisionStep]:
    names = _queue_names_by_variable(env)
    runs = {"VisibilityTimeout": str(constants.QUEUE_VISIBILITY_SECONDS)}
    for variable in ("DPP_QUEUE_URL", "DPP_EXPRESS_QUEUE_URL"):
        if variable in names:
            yield from _pair(sqs, names[variable], names["DPP_DLQ_URL"], runs, receives=constants.QUEUE_MAX_RECEIVES)
    if set(EVENTS_QUEUES) <= names.keys():
        events = {
            "VisibilityTimeout": str(constants.EVENTS_VISIBILITY_SECONDS),
            "MessageRetentionPeriod": str(constants.EVENTS_RETENTION_SECONDS),
        }
        queue, dlq = (names[variable] for variable in EVENTS_QUEUES)
        yield from _pair(sqs, queue, dlq, events, receives=constants.EVENTS_MAX_RECEIVES)
    else:
        remarks.append(f"{' and '.join(EVENTS_QUEUES)} are not set: events wait in Postgres")
    for variable, name in names.items():
        _compare_url(variable, getattr(env, variable), _url(sqs, name), remarks)


def _queue_names_by_variable(env: Environment) -> dict[str, str]:
    """Of each queue that is set, by its variable; those of events are both set, or neither."""
    said = {name: getattr(env, name) for name in (*RUNS_QUEUES, *EVENTS_QUEUES)}
    if len(unset := [variable for variable in EVENTS_QUEUES if said[variable] is None]) == 1:
        raise CannotProvision(variable=unset[0], detail="is not set, and the other queue of events is")
    names: dict[str, str] = {}
    for variable, url in said.items():
        if url is None:
            continue
        name = _queue_name_in_url(variable, url)
        if (taken := next((other for other, its in names.items() if its == name), None)) is not None:
            raise CannotProvision(variable=variable, detail=f"names the same queue as {taken}")
        names[variable] = name
    return names


def _pair(
    sqs: "SQSClient", queue: str, dlq: str, attributes: dict[str, str], *, receives: int
) -> Iterator[ProvisionStep]:
    """The dead letters' first: the other one's redrive names its ARN."""
    yield from _queue(sqs, dlq, {"MessageRetentionPeriod": str(DLQ_RETENTION_SECONDS)})
    redrive = {"deadLetterTargetArn": _arn(sqs, dlq) or LATER, "maxReceiveCount": receives}
    yield from _queue(sqs, queue, attributes | {"RedrivePolicy": json.dumps(redrive)})


def _queue_name_in_url(variable: str, url: str) -> str:
    name = urlsplit(url).path.rstrip("/").rpartition("/")[2]
    if not name:
        raise CannotProvision(variable=variable, detail="its last path part must be the queue's name")
    if name.endswith(".fifo"):
        raise CannotProvision(variable=variable, detail="must name a standard queue, this is a FIFO queue")
    return name


def _url(sqs: "SQSClient", name: str) -> str | None:
    try:
        return sqs.get_queue_url(QueueName=name)["QueueUrl"]
    except sqs.exceptions.QueueDoesNotExist:
        return None


def _arn(sqs: "SQSClient", name: str) -> str | None:
    url = _url(sqs, name)
    return url and sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]


def _queue(sqs: "SQSClient", name: str, wanted: dict[str, str]) -> Iterator[ProvisionStep]:
    attributes = cast("Any", wanted)  # boto3-stubs want literal keys
    url = _url(sqs, name)
    if url is None:
        change = Change(f"queue {name}", "made", None, wanted)
        yield change, lambda: sqs.create_queue(QueueName=name, Attributes=attributes)
        return
    found = cast("dict[str, str]", sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"])
    for key, value in wanted.items():
        if _meaning(key, found.get(key)) != _meaning(key, value):
            change = Change(f"queue {name}", key, found.get(key), value)
            yield change, lambda key=key: sqs.set_queue_attributes(QueueUrl=url, Attributes={key: attributes[key]})  # type: ignore[misc]


def _meaning(key: str, value: str | None) -> object:
    if key != "RedrivePolicy" or not value:
        return value
    policy = json.loads(value)
    return policy.get("deadLetterTargetArn"), int(policy.get("maxReceiveCount", 0))


def _compare_url(variable: str, said: str, given: str | None, remarks: list[str]) -> None:
    """Another host may be another way to the same service; another account or name is another queue."""
    if given is None or given == said:
        return
    if urlsplit(given).path != urlsplit(said).path:
        raise CannotProvision(variable=variable, detail=f"is {said}, but the service calls this queue {given}")
    remarks.append(f"{variable} is {said}; the service calls this queue {given}")


# Buckets


def _buckets(s3: "S3Client", env: Environment, remarks: list[str]) -> Iterator[ProvisionStep]:
    """That of archives only where it is named or workspaces are held: others may not own a bucket of its usual name."""
    if env.DPP_ARCHIVE_BUCKET == env.DPP_BUCKET:
        raise CannotProvision(
            variable="DPP_ARCHIVE_BUCKET", detail="names the same bucket as DPP_BUCKET, which forgets"
        )
    yield from _bucket(s3, env.DPP_BUCKET, env.AWS_REGION, [*_expiring(), ABORTING], remarks)
    if {"DPP_ARCHIVE_BUCKET", "DPP_WORKSPACES_DRIVER"} & env.model_fields_set:
        yield from _bucket(s3, env.DPP_ARCHIVE_BUCKET, env.AWS_REGION, [ABORTING], remarks)
    else:
        remarks.append("DPP_ARCHIVE_BUCKET is not set: no bucket for archives of workspaces was looked for")


def _bucket(
    s3: "S3Client", bucket: str, region: str, rules: list[dict[str, Any]], remarks: list[str]
) -> Iterator[ProvisionStep]:
    there = _or_none(lambda: s3.head_bucket(Bucket=bucket), "404", "NoSuchBucket") is not None
    if not there:
        yield Change(f"bucket {bucket}", "made", None, region), lambda: _create_bucket(s3, bucket, region)
    for field, wanted, look, put in _bucket_parts(s3, bucket, rules):
        found = look() if there else None
        if found != wanted:
            yield (
                Change(f"bucket {bucket}", field, found, wanted),
                lambda field=field, put=put: _put_if_supported(field, put, remarks),  # type: ignore[misc]
            )


def _create_bucket(s3: "S3Client", bucket: str, region: str) -> None:
    if region == "us-east-1":  # the one region that may not be named
        s3.create_bucket(Bucket=bucket)
    else:
        named = cast("Any", region)
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": named})


def _bucket_parts(
    s3: "S3Client", bucket: str, rules: list[dict[str, Any]]
) -> Iterator[tuple[str, object, Callable[[], object], Callable[[], object]]]:
    public = cast("Any", BLOCKED)
    yield (
        "public access blocked",
        BLOCKED,
        lambda: _or_none(
            lambda: s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"],
            "NoSuchPublicAccessBlockConfiguration",
        ),
        lambda: s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=public),
    )
    yield (
        "encryption",
        "AES256",
        lambda: _encryption(s3, bucket),
        lambda: s3.put_bucket_encryption(
            Bucket=bucket,
            ServerSideEncryptionConfiguration={
                "Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]
            },
        ),
    )
    yield (
        "lifecycle",
        rules,
        lambda: [rule for rule in _bucket_lifecycle_rules(s3, bucket) if rule.get("ID") in _our_ids()],
        lambda: _put_lifecycle(s3, bucket, rules),
    )


def _encryption(s3: "S3Client", bucket: str) -> str | None:
    found: Any = _or_none(
        lambda: s3.get_bucket_encryption(Bucket=bucket), "ServerSideEncryptionConfigurationNotFoundError"
    )
    if found is None:
        return None
    rules = found["ServerSideEncryptionConfiguration"]["Rules"]
    algorithm = rules[0].get("ApplyServerSideEncryptionByDefault", {}).get("SSEAlgorithm")
    # A KMS key is the owner's stronger choice, and stays.
    return "AES256" if str(algorithm).startswith("aws:kms") else algorithm


def _expiring() -> list[dict[str, Any]]:
    """The bucket itself deletes what our retention should have deleted by then."""
    return [
        {
            "ID": f"dpp-expire-{prefix.rstrip('/').replace('/', '-')}",
            "Status": "Enabled",
            "Filter": {"Prefix": prefix},
            "Expiration": {"Days": days},
        }
        for prefix, days in retention.expiring_prefixes().items()
    ]


def _our_ids() -> set[str]:
    """In every bucket of ours: one that was the results' before must not go on to expire."""
    return {rule["ID"] for rule in [*_expiring(), ABORTING]}


def _bucket_lifecycle_rules(s3: "S3Client", bucket: str) -> list[dict[str, Any]]:
    found: Any = _or_none(lambda: s3.get_bucket_lifecycle_configuration(Bucket=bucket), "NoSuchLifecycleConfiguration")
    return [] if found is None else [_lifecycle_rule_with_filter(rule) for rule in found["Rules"]]


def _lifecycle_rule_with_filter(rule: dict[str, Any]) -> dict[str, Any]:
    """A rule for everything is written with an empty prefix, and read back without one by some services."""
    return rule | {"Filter": {"Prefix": ""}} if not rule.get("Filter") and "Prefix" not in rule else rule


def _put_lifecycle(s3: "S3Client", bucket: str, wanted: list[dict[str, Any]]) -> None:
    """The configuration is one document: other rules go back with ours."""
    others = [rule for rule in _bucket_lifecycle_rules(s3, bucket) if rule.get("ID") not in _our_ids()]
    rules = cast("Any", wanted + others)
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": rules})


def _or_none(ask: Callable[[], object], *absent: str) -> object:
    try:
        return ask()
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") in NOT_SUPPORTED.union(absent):
            return None
        raise


def _put_if_supported(field: str, put: Callable[[], object], remarks: list[str]) -> None:
    try:
        put()
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") not in NOT_SUPPORTED:
            raise
        remarks.append(f"{field}: this service does not support it")
