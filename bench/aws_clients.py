"""CPU of one send, one PUT and one address to GET: ours, and with botocore's signature, urllib3's pool or boto3.

    make bench B=aws_clients

Each way does all that the product does for it, the message's JSON and the object's checksum left out. The ways take
turns in a random order, so that a busy machine is busy for all. The share is of a submit's CPU for a send, of a life's
for a PUT and of a poll's for an address, as `make bench B=submit`, `B=worker_throughput` and `B=get` gave them on two
cores; docs/dependencies.md says what was decided by these figures.
"""

import base64
import contextlib
import hashlib
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dpp_project.settings")

import urllib3
from boto3.session import Session
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from dpp_project.aws import clients
from dpp_project.aws.connections import Connections
from dpp_project.aws.signing import Signer
from runs.bucket.signed_bucket import SignedBucket
from runs.bucket.storage import ENVELOPE_CONTENT_TYPE

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

ROUNDS, CALLS = 30, 200
SUBMIT_US: Final = 1_500
LIFE_US: Final = 9_600
POLL_US: Final = 1_470
KEYS: Final = Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
REGION: Final = "us-east-1"
KEY: Final = "dpp/t_bench/2026/02/28/01900000-0000-7000-8000-000000000001/pack_envelope.json"
CONTENT: Final = b"x" * 2_000
CHECKSUM: Final = base64.b64encode(hashlib.sha256(CONTENT).digest()).decode()
BODY: Final = "x" * 1_300
Sign = Callable[[str, str, dict[str, str], bytes], dict[str, str]]
Exchange = Callable[[str, str, dict[str, str], bytes], tuple[int, bytes]]


def signers(origin: str, service: str) -> dict[str, Sign]:
    signer, theirs = Signer(origin, service=service, region=REGION), S3SigV4Auth if service == "s3" else SigV4Auth

    def botocores(method: str, path: str, headers: dict[str, str], body: bytes) -> dict[str, str]:
        request: Any = AWSRequest(method, origin + path, headers=headers, data=body)
        theirs(KEYS, service, REGION).add_auth(request)
        return dict(request.headers.items())

    return {"ours": partial(signer.signed, KEYS), "botocore": botocores}


def exchanges(origin: str) -> dict[str, Exchange]:
    pool = urllib3.connection_from_url(origin, maxsize=32, timeout=5)

    def pooled(method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        answer = pool.urlopen(method, path, body=body, headers=headers, retries=False, redirect=False)
        return answer.status, answer.data

    return {"ours": Connections(origin, timeout_seconds=5).exchange, "urllib3": pooled}


def sends(origin: str, sign: Sign, exchange: Exchange) -> Callable[[], object]:
    headers = {
        "X-Amz-Target": "AmazonSQS.SendMessage",
        "Content-Type": "application/x-amz-json-1.0",
        "x-amzn-query-mode": "true",
    }

    def send() -> None:
        body = json.dumps({"QueueUrl": f"{origin}/0/runs", "MessageBody": BODY, "MessageGroupId": "t"}).encode()
        status, content = exchange("POST", "/", sign("POST", "/", headers, body), body)
        assert status == 200
        json.loads(content)

    return send


def puts(sign: Sign, exchange: Exchange) -> Callable[[], object]:
    headers, path = {"Content-Type": ENVELOPE_CONTENT_TYPE, "x-amz-checksum-sha256": CHECKSUM}, f"/bucket/{KEY}"

    def put() -> None:
        assert exchange("PUT", path, sign("PUT", path, headers, CONTENT), CONTENT)[0] == 200

    return put


def boto3s(origin: str) -> tuple[Callable[[], object], Callable[[], object], "S3Client"]:
    session = Session(KEYS.access_key, KEYS.secret_key, region_name=REGION)
    sqs = session.client("sqs", endpoint_url=origin)
    s3 = session.client("s3", endpoint_url=origin, config=clients.s3_config(origin))
    return (
        lambda: sqs.send_message(QueueUrl=f"{origin}/0/runs", MessageBody=BODY, MessageGroupId="t"),
        lambda: s3.put_object(
            Bucket="bucket", Key=KEY, Body=CONTENT, ContentType=ENVELOPE_CONTENT_TYPE, ChecksumSHA256=CHECKSUM
        ),
        s3,
    )


def addresses(s3: "S3Client") -> dict[str, Callable[[], object]]:
    ours, params = SignedBucket.of(s3, "bucket"), {"Bucket": "bucket", "Key": KEY}
    return {
        "ours": lambda: ours.address_to_get(KEY, KEYS, seconds=600),
        "boto3": lambda: s3.generate_presigned_url("get_object", Params=params, ExpiresIn=600),
    }


def measured(ways: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Microseconds of this process's CPU a call, the median of all rounds."""
    seen: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        _cpu_us(way)
    for _ in range(ROUNDS):
        for name in random.sample(list(ways), len(ways)):
            seen[name].append(_cpu_us(ways[name]))
    return {name: statistics.median(rounds) for name, rounds in seen.items()}


def _cpu_us(way: Callable[[], object]) -> float:
    began = time.process_time()
    for _ in range(CALLS):
        way()
    return (time.process_time() - began) / CALLS * 1e6


@contextlib.contextmanager
def a_server() -> Iterator[str]:
    with subprocess.Popen([sys.executable, "-m", "bench.peers.http_ok"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def tell(what: str, whole: str, whole_us: int, found: dict[str, float]) -> None:
    for name, us in found.items():
        more = us - found["ours"]
        print(f"{what:5s} {name:32s} {us:6.0f} us   {more:+5.0f} us = {more / whole_us:+6.1%} of a {whole}", flush=True)


def main() -> None:
    with a_server() as origin:
        sqs, s3, exchange = signers(origin, "sqs"), signers(origin, "s3"), exchanges(origin)
        send, put, client = boto3s(origin)
        names = {
            "ours": ("ours", "ours"),
            "botocore's signature": ("botocore", "ours"),
            "urllib3's pool": ("ours", "urllib3"),
            "both": ("botocore", "urllib3"),
        }
        ways = {name: sends(origin, sqs[sign], exchange[way]) for name, (sign, way) in names.items()}
        tell("send", "submit", SUBMIT_US, measured(ways | {"boto3": send}))
        ways = {name: puts(s3[sign], exchange[way]) for name, (sign, way) in names.items()}
        tell("put", "life", LIFE_US, measured(ways | {"boto3": put}))
        tell("sign", "poll", POLL_US, measured(addresses(client)))


if __name__ == "__main__":
    main()
