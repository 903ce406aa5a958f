"""boto3's clients and our own connections: one identity, the same proxies, bounded timeouts and retries everywhere."""

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from botocore.credentials import Credentials
from botocore.exceptions import NoCredentialsError

from dpp_project.aws import clients, connections, sqs_sender
from dpp_project.aws.connections import Connections
from dpp_project.aws.sqs_sender import QueueMessage, Sender, SendRefused, Unreachable
from dpp_project.settings import ENV
from runs.bucket import storage
from tests.gear.faults.scripted import Scripted

NOWHERE = "http://queues.invalid"


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    """Stands between us and whatever is asked, and answers itself."""
    with Scripted(str(ENV.SQS_ENDPOINT_URL)).running() as server:
        for name in ("http_proxy", "HTTP_PROXY"):
            monkeypatch.setenv(name, server.url)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.setenv(name, "127.0.0.1")
        yield server


def a_sender(endpoint: str) -> Sender:
    return Sender(
        endpoint=endpoint,
        queue_url=ENV.DPP_QUEUE_URL,
        region="us-east-1",
        credentials=lambda: Credentials("test", "test"),
        timeout_seconds=2,
    )


@pytest.mark.parametrize("made", [clients.new_s3(None), clients.new_s3("http://127.0.0.1:1"), clients.new_sqs()])
def test_each_client_has_bounded_timeouts_and_retries(made: Any) -> None:
    config = made.meta.config
    assert config.retries["total_max_attempts"] == 2
    assert (config.connect_timeout, config.read_timeout) == (
        (3, 10) if made.meta.service_model.service_name == "s3" else (ENV.DPP_SQS_TIMEOUT_MS / 1_000,) * 2
    )


def test_the_storage_and_the_readiness_probe_share_the_process_s_client() -> None:
    assert storage.shared_run_storage().client() is clients.s3_client(ENV.S3_ENDPOINT_URL)


def test_a_send_takes_the_proxy_that_boto3_takes(proxy: Scripted) -> None:
    sender = a_sender(NOWHERE)
    with proxy.answering(200, b'{"MessageId": "m"}'):
        sender.send(QueueMessage("x"))
    assert proxy.actions == ["SendMessage"]
    sender.close()


def test_a_send_past_a_proxy_that_is_away_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    sender = a_sender(NOWHERE)
    with pytest.raises(Unreachable):
        sender.send(QueueMessage("x"))
    sender.close()


def test_no_proxy_stands_before_an_address_that_is_excepted(proxy: Scripted) -> None:
    found = Connections(str(ENV.SQS_ENDPOINT_URL), timeout_seconds=2)
    assert found.exchange("GET", "/", {}, b"")[0] > 0
    assert proxy.actions == []
    found.close()


def test_our_connections_trust_the_authorities_that_boto3_trusts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority, bundle = trustme.CA(), tmp_path / "authorities.pem"
    authority.cert_pem.write_to_path(str(bundle))
    monkeypatch.setenv("AWS_CA_BUNDLE", str(bundle))
    assert connections._authorities() == str(bundle)
    made = Connections("https://queues.invalid", timeout_seconds=1)._tls
    assert isinstance(made, ssl.SSLContext)
    assert len(made.get_ca_certs()) == 1
    assert made.minimum_version >= ssl.TLSVersion.TLSv1_2
    monkeypatch.delenv("AWS_CA_BUNDLE")
    assert connections._authorities() != str(bundle)


def test_without_credentials_a_send_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_found() -> None:
        raise NoCredentialsError

    monkeypatch.setattr(clients, "aws_credentials", none_found)
    with pytest.raises(SendRefused, match="no AWS credentials"):
        sqs_sender.shared_sender._make()
