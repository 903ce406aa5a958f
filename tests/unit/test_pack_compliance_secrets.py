"""Keys and passwords. They are put together here, so that nobody's scanner finds them in this file."""

import base64
import json

import pytest

from runs.packs.compliance import credentials

RANDOM = "q8Zr1Tk2LmP0x7Vb9Nc3Wd5Ef6Gh4Jy" * 4


def b64(document: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")


JWT = f"{b64({'alg': 'HS256', 'typ': 'JWT'})}.{b64({'sub': '1', 'n': 1})}.{RANDOM[:30]}"
PEM = "-----BEGIN RSA PRIVATE" + " KEY-----\nMIIEpAIBAAKCAQEA\nabc+/=\n-----END RSA PRIVATE" + " KEY-----"
CASES = [
    ("aws_access_key_id", "AKI" + "AIOSFODNN7ABCDEFG"),
    ("github_token", "gh" + "p_" + RANDOM[:36]),
    ("gitlab_token", "glp" + "at-" + RANDOM[:20]),
    ("slack_token", "xo" + "xb-" + "123456789012-" + RANDOM[:20]),
    ("slack_webhook", "https://hooks.sla" + "ck.com/services/T0/B0/" + RANDOM[:24]),
    ("stripe_key", "sk" + "_live_" + RANDOM[:24]),
    ("google_api_key", "AI" + "za" + RANDOM[:35]),
    ("llm_api_key", "sk" + "-proj-" + RANDOM[:40]),
    ("npm_token", "np" + "m_" + RANDOM[:36]),
    ("pypi_token", "py" + "pi-AgE" + RANDOM[:60]),
    ("sendgrid_key", "S" + "G." + RANDOM[:22] + "." + RANDOM[:43]),
    ("telegram_token", "123456789:" + "AA" + RANDOM[:33]),
    ("dpp_key", "dpp" + "_abcdefgh_" + RANDOM[:43]),
    ("private_key", PEM),
    ("private_key", PEM.split("-----END", maxsplit=1)[0]),
    ("jwt", JWT),
]


@pytest.mark.contract("DPP-64")
@pytest.mark.parametrize(("kind", "secret"), CASES)
def test_dpp_64_a_secret_is_known_by_its_mark(kind: str, secret: str) -> None:
    data = f"before {secret}".encode()
    assert [data[match.start : match.end].decode() for match in credentials.credential_spans(kind, data)] == [secret]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("password", 'password = "hunter2!"', "hunter2!"),
        ("password", "DB_PASSWORD=s3cr3t-value", "s3cr3t-value"),
        ("password", "비밀번호는 qwer1234! 입니다", "qwer1234!"),
        ("password", '{"passwd": "two words here"}', "two words here"),
        ("password_in_url", "postgres://user:s3cr3t@db.internal/x", "s3cr3t"),
        ("key", f"api_key: {RANDOM[:24]}", RANDOM[:24]),
        ("key", f"Authorization: Bearer {RANDOM[:40]}", RANDOM[:40]),
    ],
)
def test_dpp_64_behind_its_name_a_value_is_a_secret(kind: str, text: str, value: str) -> None:
    data = text.encode()
    assert [data[match.start : match.end].decode() for match in credentials.credential_spans(kind, data)] == [value]


@pytest.mark.parametrize(
    "text",
    [
        "password = ${DB_PASSWORD}",
        "password: <your password>",
        "password=xxxxxxxx",
        "password: changeme",
        "api_key = 0000000000000000000000",
        "the password policy was changed",
        "AKIA is a prefix",
        "https://example.com:8080/path@v1",
        "eyJhbGciOiJub3QganNvbiI.eyJhIjoxfQ.x",
        "sk-short",
        "a secret garden of words and more words",
    ],
)
def test_dpp_64_placeholders_and_prose_are_no_secrets(text: str) -> None:
    found = {kind: credentials.credential_spans(kind, text.encode()) for kind in credentials.FINDERS}
    assert {kind: spans for kind, spans in found.items() if spans} == {}
