"""manage.py provision against the real endpoints (DPP-38, DPP-76)."""

import io
import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from dpp_project import constants
from dpp_project.aws import clients, provisioning
from dpp_project.env import Environment
from dpp_project.settings import ENV

pytestmark = pytest.mark.django_db  # what it made is entered into the audit trail


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[Environment]:
    """Names that nothing has yet; gone afterwards."""
    name = f"gear-{uuid.uuid4().hex[:12]}"
    base = str(ENV.SQS_ENDPOINT_URL).rstrip("/") + "/000000000000"
    env = ENV.model_copy(
        update={
            "DPP_QUEUE_URL": f"{base}/{name}",
            "DPP_DLQ_URL": f"{base}/{name}-dlq",
            "DPP_EVENTS_QUEUE_URL": f"{base}/{name}-events",
            "DPP_EVENTS_DLQ_URL": f"{base}/{name}-events-dlq",
            "DPP_BUCKET": name,
            "DPP_ARCHIVE_BUCKET": f"{name}-archives",
        }
    )
    monkeypatch.setattr(provisioning, "ENV", env)
    yield env
    sqs, s3 = clients.sqs_client(), clients.new_s3(env.S3_ENDPOINT_URL)
    for url in (env.DPP_QUEUE_URL, env.DPP_DLQ_URL, env.DPP_EVENTS_QUEUE_URL, env.DPP_EVENTS_DLQ_URL):
        try:
            sqs.delete_queue(QueueUrl=str(url))
        except sqs.exceptions.QueueDoesNotExist:
            continue
    for bucket in {found["Name"] for found in s3.list_buckets()["Buckets"]} & {name, env.DPP_ARCHIVE_BUCKET}:
        s3.delete_bucket(Bucket=bucket)


def attributes(url: str) -> dict[str, Any]:
    found: Any = clients.sqs_client().get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
    return dict(found["Attributes"])


def run(*arguments: str) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command("provision", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


@pytest.mark.contract("DPP-38")
def test_dpp_38_the_queue_is_standard_visible_after_120_s_and_redriven_after_3(fresh: Environment) -> None:
    run()
    runs, dlq = attributes(fresh.DPP_QUEUE_URL), attributes(fresh.DPP_DLQ_URL)
    assert runs["VisibilityTimeout"] == "120"
    assert json.loads(runs["RedrivePolicy"])["deadLetterTargetArn"] == dlq["QueueArn"]
    assert int(json.loads(runs["RedrivePolicy"])["maxReceiveCount"]) == 3
    assert runs.get("FifoQueue", "false") == "false"
    assert dlq["MessageRetentionPeriod"] == str(14 * 86_400)


@pytest.mark.contract("AUT-06")
def test_aut_06_the_queue_of_events_outlives_a_lease_keeps_14_days_and_is_redriven_after_100(
    fresh: Environment,
) -> None:
    run()
    events, dlq = (attributes(str(url)) for url in (fresh.DPP_EVENTS_QUEUE_URL, fresh.DPP_EVENTS_DLQ_URL))
    assert (events["VisibilityTimeout"], events["MessageRetentionPeriod"]) == ("90", str(14 * 86_400))
    redrive = json.loads(events["RedrivePolicy"])
    assert (redrive["deadLetterTargetArn"], int(redrive["maxReceiveCount"])) == (dlq["QueueArn"], 100)
    assert dlq["MessageRetentionPeriod"] == str(14 * 86_400)


@pytest.mark.contract("AUT-06")
def test_aut_06_without_queues_of_events_the_others_are_made_and_it_is_said(
    fresh: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = fresh.model_copy(update={"DPP_EVENTS_QUEUE_URL": None, "DPP_EVENTS_DLQ_URL": None})
    monkeypatch.setattr(provisioning, "ENV", without)
    document = json.loads(run("--json")[0])
    assert [change["resource"].split()[0] for change in document["changes"]].count("queue") == 2
    assert document["remarks"] == ["DPP_EVENTS_QUEUE_URL and DPP_EVENTS_DLQ_URL are not set: events wait in Postgres"]
    assert attributes(fresh.DPP_QUEUE_URL)["VisibilityTimeout"] == "120"
    sqs = clients.sqs_client()
    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        attributes(str(fresh.DPP_EVENTS_QUEUE_URL))


@pytest.mark.contract("DPP-76", "DPP-23")
def test_dpp_76_the_bucket_is_private_encrypted_and_forgets(fresh: Environment) -> None:
    run()
    s3 = clients.new_s3(fresh.S3_ENDPOINT_URL)
    block = s3.get_public_access_block(Bucket=fresh.DPP_BUCKET)["PublicAccessBlockConfiguration"]
    assert all(block[name] for name in provisioning.BLOCKED)  # type: ignore[literal-required]
    assert provisioning._encryption(s3, fresh.DPP_BUCKET) == "AES256"
    rules = {
        rule["ID"]: rule for rule in s3.get_bucket_lifecycle_configuration(Bucket=fresh.DPP_BUCKET)["Rules"]
    }  # fmt: skip
    assert rules["dpp-expire-dpp"]["Filter"]["Prefix"] == "dpp/"
    assert rules["dpp-expire-dpp"]["Expiration"]["Days"] == constants.RETENTION_DAYS == 30
    assert rules["dpp-expire-uploads"]["Expiration"]["Days"] == 30
    assert rules["dpp-abort-multipart"]["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"] == 7
    assert {rule["Status"] for rule in rules.values()} == {"Enabled"}


@pytest.mark.contract("WSP-07")
def test_wsp_07_archives_have_a_bucket_of_their_own_that_expires_nothing(fresh: Environment) -> None:
    s3 = clients.new_s3(fresh.S3_ENDPOINT_URL)
    s3.create_bucket(Bucket=fresh.DPP_ARCHIVE_BUCKET)
    rules: Any = [*provisioning._expiring(), provisioning.ABORTING]  # as if it had been the results' before
    s3.put_bucket_lifecycle_configuration(Bucket=fresh.DPP_ARCHIVE_BUCKET, LifecycleConfiguration={"Rules": rules})
    run()
    block = s3.get_public_access_block(Bucket=fresh.DPP_ARCHIVE_BUCKET)["PublicAccessBlockConfiguration"]
    assert all(block[name] for name in provisioning.BLOCKED)  # type: ignore[literal-required]
    assert provisioning._encryption(s3, fresh.DPP_ARCHIVE_BUCKET) == "AES256"
    left = s3.get_bucket_lifecycle_configuration(Bucket=fresh.DPP_ARCHIVE_BUCKET)["Rules"]
    assert [(rule["ID"], "Expiration" in rule) for rule in left] == [("dpp-abort-multipart", False)]


@pytest.mark.contract("WSP-07")
def test_wsp_07_where_no_workspaces_are_held_no_bucket_of_archives_is_asked_for(
    fresh: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = fresh.model_dump(exclude={"DPP_ARCHIVE_BUCKET", "DPP_WORKSPACES_DRIVER"})
    monkeypatch.setattr(provisioning, "ENV", Environment.model_construct(**named))
    document = json.loads(run("--json")[0])
    assert [change["resource"] for change in document["changes"]].count(f"bucket {fresh.DPP_BUCKET}") == 4
    assert not [change for change in document["changes"] if "archives" in change["resource"]]
    assert document["remarks"] == ["DPP_ARCHIVE_BUCKET is not set: no bucket for archives of workspaces was looked for"]


@pytest.mark.contract("DPP-76")
def test_dpp_76_a_second_provision_finds_nothing_to_do(fresh: Environment) -> None:
    run()
    out, _ = run("--json")
    assert json.loads(out) == {"changes": [], "remarks": [], "dry_run": False}
    assert run()[0] == "Everything is as it should be.\n"


@pytest.mark.contract("DPP-76")
def test_dpp_76_a_dry_run_says_the_difference_and_changes_nothing(fresh: Environment) -> None:
    document = json.loads(run("--dry-run", "--json")[0])
    assert document["dry_run"] is True
    assert [(change["resource"].split()[0], change["field"]) for change in document["changes"]] == [
        ("queue", "made"),
        ("queue", "made"),
        ("queue", "made"),
        ("queue", "made"),
        ("bucket", "made"),
        ("bucket", "public access blocked"),
        ("bucket", "encryption"),
        ("bucket", "lifecycle"),
        ("bucket", "made"),
        ("bucket", "public access blocked"),
        ("bucket", "encryption"),
        ("bucket", "lifecycle"),
    ]
    sqs = clients.sqs_client()
    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        attributes(fresh.DPP_QUEUE_URL)
    buckets = {found["Name"] for found in clients.new_s3(fresh.S3_ENDPOINT_URL).list_buckets()["Buckets"]}
    assert not {fresh.DPP_BUCKET, fresh.DPP_ARCHIVE_BUCKET} & buckets


@pytest.mark.contract("DPP-76")
def test_dpp_76_drift_is_repaired_and_what_is_not_ours_stays(fresh: Environment) -> None:
    run()
    sqs, s3 = clients.sqs_client(), clients.new_s3(fresh.S3_ENDPOINT_URL)
    sqs.set_queue_attributes(QueueUrl=fresh.DPP_QUEUE_URL, Attributes={"VisibilityTimeout": "30", "RedrivePolicy": ""})
    s3.put_bucket_lifecycle_configuration(
        Bucket=fresh.DPP_BUCKET,
        LifecycleConfiguration={
            "Rules": [{"ID": "theirs", "Status": "Enabled", "Filter": {"Prefix": "x/"}, "Expiration": {"Days": 9}}]
        },
    )
    fields = [change["field"] for change in json.loads(run("--json")[0])["changes"]]
    assert fields == ["VisibilityTimeout", "RedrivePolicy", "lifecycle"]
    assert attributes(fresh.DPP_QUEUE_URL)["VisibilityTimeout"] == "120"
    assert "deadLetterTargetArn" in attributes(fresh.DPP_QUEUE_URL)["RedrivePolicy"]
    assert [rule["ID"] for rule in s3.get_bucket_lifecycle_configuration(Bucket=fresh.DPP_BUCKET)["Rules"]] == [
        "dpp-expire-dpp",
        "dpp-expire-reports-ops-tickets-reaper-snapshots",
        "dpp-expire-uploads",
        "dpp-abort-multipart",
        "theirs",
    ]
    assert json.loads(run("--json")[0])["changes"] == []


@pytest.mark.contract("DPP-76")
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"S3_ENDPOINT_URL": "http://127.0.0.1:9"}, "S3_ENDPOINT_URL: http://127.0.0.1:9 does not answer"),
        ({"DPP_QUEUE_URL": "http://127.0.0.1/1/runs.fifo"}, "DPP_QUEUE_URL: must name a standard queue"),
        ({"DPP_DLQ_URL": "http://127.0.0.1/"}, "DPP_DLQ_URL: its last path part must be the queue's name"),
        ({"DPP_QUEUE_URL": "http://127.0.0.1/9/x", "DPP_DLQ_URL": "http://h/9/x"}, "DPP_DLQ_URL: names the same queue"),
        ({"DPP_ARCHIVE_BUCKET": ENV.DPP_BUCKET, "DPP_BUCKET": ENV.DPP_BUCKET}, "DPP_ARCHIVE_BUCKET: names the same"),
        ({"DPP_EVENTS_QUEUE_URL": None}, "DPP_EVENTS_QUEUE_URL: is not set, and the other queue of events is"),
        ({"DPP_EVENTS_DLQ_URL": None}, "DPP_EVENTS_DLQ_URL: is not set, and the other queue of events is"),
        (
            {"DPP_QUEUE_URL": "http://127.0.0.1/9/x", "DPP_EVENTS_QUEUE_URL": "http://h/9/x"},
            "DPP_EVENTS_QUEUE_URL: names the same queue as DPP_QUEUE_URL",
        ),
    ],
)
def test_dpp_76_what_is_wrong_is_named_with_its_variable(
    changed: dict[str, str], said: str, fresh: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = fresh.model_copy(update=changed)
    monkeypatch.setattr(provisioning, "ENV", env)
    with pytest.raises(CommandError) as refused:
        run()
    assert refused.value.returncode == 1
    assert said in str(refused.value)


@pytest.mark.contract("DPP-76")
def test_dpp_76_another_accounts_queue_is_refused(fresh: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    run()
    other = fresh.DPP_QUEUE_URL.replace("/000000000000/", "/111111111111/")
    env = fresh.model_copy(update={"DPP_QUEUE_URL": other})
    monkeypatch.setattr(provisioning, "ENV", env)
    with pytest.raises(CommandError, match=r"DPP_QUEUE_URL: is .*111111111111.*the service calls this queue .*0000000"):
        run()


@pytest.mark.contract("DPP-76")
def test_dpp_76_provision_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        call_command("provision", "--help")
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "--dry-run" in said
    assert "--json" in said
