"""No secret comes through, wherever it stands; ordinary text does. Secrets are put together, for scanners' sake."""

import base64
import json
from dataclasses import asdict

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ops.auth_errors.reports.cleaning import (
    MESSAGE_LENGTH_MAX,
    STACKTRACE_LENGTH_MAX,
    CleanReport,
    clean_report,
    cut_masked,
    plain_text,
)
from ops.auth_errors.reports.masking import MASK, masked_text
from tests.gear.corpora.auth_traces import GOLDEN

pytestmark = pytest.mark.contract("AUT-01")

KEY = b"a key for the hashes"
SHOWN_MAX = 7
"""Of a secret's characters in a row: the form of a key's prefix, or chance."""
RANDOM = "q8Zr1Tk2LmP0x7Vb9Nc3Wd5Ef6Gh4Jy" * 4
MARKED = [
    "dpp" + "_abcdefgh_" + RANDOM[:43],
    "wh" + "sec_" + RANDOM[:31] + "/" + RANDOM[:11] + "=",
    "ey" + "JhbGciOiJSUzI1NiJ9.eyJzdWIiOiI0MiJ9." + RANDOM[:40],
    "ey" + "JhbGciOiJkaXIifQ..x1." + RANDOM[:30] + ".y2",
    "gh" + "p_" + RANDOM[:36],
    "xo" + "xb-123456789012-" + RANDOM[:20],
    "sk" + "_live_" + RANDOM[:24],
    "AI" + "za" + RANDOM[:35],
    "-----BEGIN PRIVATE" + " KEY-----\n" + RANDOM[:60] + "\n" + RANDOM[1:50] + "\n-----END PRIVATE" + " KEY-----",
    "-----BEGIN EC PRIVATE" + " KEY-----\\n" + RANDOM[:60],
]
FORMS = [
    "Authorization: Bearer {}", "authorization=Bearer {}", "Bearer {}", "bearer: {}", "Proxy-Authorization: Basic {}",
    "'HTTP_AUTHORIZATION': 'Token {}'", "(b'authorization', b'Bearer {}')", "map[Authorization:[Bearer {}] Host:[x]]",
    "Cookie: theme=dark; sessionid={}; lang=ko", "Set-Cookie: sid={}; Path=/; HttpOnly", '{{"cookie": "a={}; b=c"}}',
    "X-Api-Key: {}", "x-auth-token={}", "x-amz-security-token: {}", "curl -H 'Authorization: Bearer {}'",
    "password={}", "password = {}", "Password: {}", "DB_PASSWORD={}", "PGPASSWORD={}",
    "spring.datasource.password={}", '"password": "{}"', "'password': '{}'", '\\"password\\":\\"{}\\"',
    '\\\\\\"password\\\\\\": \\\\\\"{}\\\\\\"', "password=`{}`", "password: b'{}'", "password: [{}, x]",
    "passwd => {}", "new_password={}", "userPassword: {}", "password[0]={}", '{{"user": "bob", "apiKey": "{}"}}',
    "api_key={}", "api-key: {}", "client_secret={}", "secret: {}", "secretKey={}", "access_token={}",
    "refreshToken: {}", '"id_token":"{}"', "AWS_SECRET_ACCESS_KEY={}", "private_key={}", "csrfmiddlewaretoken={}",
    "JSESSIONID={}", "/login;jsessionid={}", "PHPSESSID={}", "sessionId={}", "credentials={}", "pwd={};", "otp={}",
    "--password {}", "--api-key={}", "mysql --password={} -u root", "<password>{}</password>",
    '<wsse:Password Type="text">{}</wsse:Password>', "https://bob:{}@db.example.com/x", "https://{}@example.com/",
    "redis://:{}@cache:6379/0", "amqp://u:{}@mq", "u:{}@tcp(db:3306)/x", "jdbc:postgresql://db/x?user=a&password={}",
    "jdbc:oracle:thin:scott/{}@db:1521", "https://x.example.com/cb?code={}&state=1", "https://x.example.com/?q={}",
    "GET /reset?key={} HTTP/1.1", "/cb?state=1&code={}", "token%3D{}", "x?a=1&amp;code={}", "\\u0026code={}",
    "비밀번호: {}", "비밀번호\uff1a{}", "API key: {}", "AccountKey={}", "code_verifier={}", "Negotiate {}1",
    "('x-api-key', '{}')", "curl -u bob:{} x", "ALTER USER bob PASSWORD '{}'", "SAMLResponse={}", "Digest token={}",
    "login failed (password={})", "User(name=bob, password={})",
]  # fmt: skip
SECRETS = st.text(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._~+/-", min_size=12, max_size=60
).filter(lambda text: text[0].isalnum() and text[-1].isalnum() and any(one.isdigit() for one in text))
"""What stands unquoted in every form; no address has a `/` in its userinfo."""
ORDINARY = st.sampled_from(
    [
        "",
        "login failed ",
        "at com.acme.X.y(X.java:1)\n\t",
        "사용자 ",
        "user=bob, ",
        "a: b\n",
        "(",
        "[",
        "e\u0301🔑 ",
        "GET /a ",
        "=> ",
    ]
)
BEHIND = st.sampled_from(["", " ", "\n", "\n\tat com.acme.X.y(X.java:1)", " and more"])
FIELDS = (
    "requestId", "exceptionClass", "stacktrace", "exceptionMessage", "rootCauseClass", "rootCauseMessage", "requestUri",
    "httpMethod", "clientIp", "userAgent", "sessionId", "userId",
)  # fmt: skip
REPORT: dict[str, str | None] = {"requestId": "r-1", "exceptionClass": "a.B", "stacktrace": "a.B: c"}


def clean(**fields: str | None) -> CleanReport:
    return clean_report(REPORT | fields, key=KEY)


def shown(secret: str, report: CleanReport) -> str | None:
    """A piece of the secret that is anywhere in what would be stored, logged or shown."""
    everything = json.dumps(asdict(report), ensure_ascii=False)
    pieces = (secret[at : at + SHOWN_MAX + 1] for at in range(len(secret) - SHOWN_MAX))
    return next((piece for piece in pieces if piece in everything), None)


def planted(form: str, secret: str) -> str:
    return form.format(secret.replace("/", "-") if "@" in form else secret)


@pytest.mark.parametrize("form", FORMS)
def test_aut_01_a_secret_in_each_form_is_masked_and_what_stands_around_it_is_not(form: str) -> None:
    secret = "hunter2-Q8zr1Tk2LmP0"
    text = f"before the {form.format(secret)} behind\nit all"
    assert secret not in masked_text(text)
    assert MASK in masked_text(text)
    assert masked_text(text).startswith("before the ")
    assert masked_text(text).endswith("\nit all")
    assert masked_text(masked_text(text)) == masked_text(text)


@pytest.mark.parametrize("secret", MARKED)
@pytest.mark.parametrize("around", ["{}", "x {} y", "key={}", '"{}"', "https://h/{}/x", "a.b.C: {}", "({})", "[{}]\n"])
def test_aut_01_a_credential_is_known_by_its_own_form(secret: str, around: str) -> None:
    report = clean(exceptionMessage=around.format(secret), stacktrace=around.format(secret))
    assert shown(secret[12:], report) is None


def test_aut_01_basic_credentials_are_masked_and_prose_is_not() -> None:
    credentials = base64.b64encode(b"bob:opensesame").decode()
    assert masked_text(f"sent Basic {credentials} twice") == "sent Basic *** twice"
    assert masked_text("Basic authentication is not enabled") == "Basic authentication is not enabled"


@given(form=st.sampled_from(FORMS), secret=SECRETS, before=ORDINARY, behind=BEHIND, field=st.sampled_from(FIELDS))
@settings(max_examples=300, deadline=None)
def test_aut_01_a_secret_planted_anywhere_is_nowhere_in_what_is_kept(
    form: str, secret: str, before: str, behind: str, field: str
) -> None:
    secret = secret.replace("/", "-") if "@" in form else secret
    report = clean(**{field: before + form.format(secret) + behind})
    assert shown(secret, report) is None


@given(form=st.sampled_from([*FORMS, *MARKED]), secret=SECRETS, before=st.integers(-70, 10), message=st.booleans())
@settings(max_examples=150, deadline=None)
def test_aut_01_no_secret_shows_around_a_cut(form: str, secret: str, before: int, message: bool) -> None:  # noqa: FBT001
    length = MESSAGE_LENGTH_MAX if message else STACKTRACE_LENGTH_MAX
    secret = secret.replace("/", "-") if "@" in form else secret
    field = "exceptionMessage" if message else "stacktrace"
    report = clean(**{field: "w " * ((length + before) // 2) + form.replace("{}", secret) + "\n" + " end" * 100})
    assert shown(secret, report) is None
    kept = report.exception_message if message else report.stacktrace
    assert kept is not None
    assert len(kept) <= length
    assert masked_text(kept) == kept


NASTY = st.text(
    st.characters(codec="utf-8", categories=["L", "N", "P", "S"], exclude_characters="\"'`,;&\\"), min_size=8
)


@pytest.mark.parametrize(
    "form", ["password={}", "Password: {}", "token => {} x", "(secret={})", "--api-key {}", "pwd={}]"]
)
@given(secret=NASTY.map(lambda text: f"S{text}1"))
@settings(max_examples=40, deadline=None)
def test_aut_01_a_value_without_quotes_may_have_any_letter_or_sign(form: str, secret: str) -> None:
    assert masked_text(form.format(secret)) == form.format(MASK)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("password={bcrypt}$2a$10$abcdefghij next", "password=*** next"),
        ("User(password=abc)def, name=bob)", "User(password=***, name=bob)"),
        ("User(name=bob, password=abc)", "User(name=bob, password=***)"),
        ("{token=abc}", "{token=***}"),
        ("password: [one, two]", "password: [***]"),
        ("{user: {password: x1}}", "{user: {password: ***}}"),
    ],
)
def test_aut_01_brackets_around_a_value_stay(text: str, kept: str) -> None:
    assert masked_text(text) == kept


FRAMES = [
    '  File "https://bob:{}@files/x.py", line 1, in login\n    login(password="{}")\nValueError: x',
    "Error: x\n    at login (https://x.example.com/app.js?token={}:1:2)\n    at main (/srv/app.js:1:2)",
    "login@https://x.example.com/app.js?token={}:1:2\nmain@https://x.example.com/app.js:1:2",
    "a.B: x\n\tat a.B.c(B.java:1) password={}\nCaused by: a.C: api_key={}\n\tat a.C.d(C.java:2)",
    "panic: x\n\ngoroutine 1 [running]:\nmain.login({{0x1, 0x2}}, token={})\n\t/srv/main.go:1 +0x1",
]


@given(trace=st.sampled_from(FRAMES), secrets=st.tuples(SECRETS, SECRETS))
@settings(max_examples=100, deadline=None)
def test_aut_01_frames_are_read_from_masked_text(trace: str, secrets: tuple[str, str]) -> None:
    one, other = (secret.replace("/", "-") for secret in secrets)
    first, second = (clean(stacktrace=trace.replace("{}", secret)) for secret in (one, other))
    assert shown(one, first) is None
    assert first.frames == second.frames
    assert first.frames["exceptions"][0]["frames"]


PIECES = [
    "password", "=", ":", '"', "'", "`", "\\", "***", "*", " ", "\n", "Bearer ", "Basic ", "Cookie: ", "abc1", "eyJ",
    ".", "://", "@", "?a=", "&", "<password>", "</", "[", "]", "(", ")", "{", "}", ",", "--token ", "null",
    "dpp_abcdefgh_", "x"*20, "-", "-----BEGIN PRIVATE"+" KEY-----", "-----END PRIVATE"+" KEY-----", "é",
    "authorization", "tcp(", "%3D", "=>", "ghp_",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join), st.integers(1, 60))
@settings(max_examples=400, deadline=None)
@example("password=password=***x", 12)
def test_aut_01_a_masked_text_masked_again_is_unchanged(text: str, length: int) -> None:
    once = masked_text(text)
    assert masked_text(once) == once
    kept = cut_masked(once, length)
    assert len(kept) <= max(length, len(MASK))
    assert masked_text(kept) == kept


PROSE = [
    "Bearer token expired", "bearer authentication is required",
    'Bearer error="invalid_token", error_description="expired"', "the password policy was changed",
    "org.x.BadCredentialsException: Bad credentials", "Invalid password", "Token expired",
    "JWT expired at 2024-03-11T00:00:00Z", "password=null", "token: None", "password must be longer",
    "secret rotation is due", "\tat com.acme.ApiKeyJwtFilter.doFilter(ApiKeyJwtFilter.java:12)",
    "at TokenService.check (token.js:1:2)", "dpp_requests_total", "checkToken@https://x.example.com/token.js:1:2",
    'File "/srv/token.py", line 3, in password', "a ? b : c", "x -> y", "1 == 2", "https://example.com/a/b.html",
    "bob@example.com", "http://localhost:3000/@fs/x.js", "https://cdn/npm/@scope/pkg@1.2.3/x.js",
    "/usr/lib/python3.11/secrets.py", "def login(user, password): ...", "auth failed for 10.0.0.7:5432", "eyJ",
    "sk-short", "java.lang.IllegalStateException: Cookie was not set", "KeyError: 'password'",
    "Access denied (using password: YES)", "{'error': 'invalid_token', 'user': 'bob'}", "비밀번호가 틀렸습니다",
    "Basic auth is off",
]  # fmt: skip


@pytest.mark.parametrize("text", PROSE)
def test_aut_01_ordinary_text_is_unchanged(text: str) -> None:
    assert masked_text(text) == text


def test_aut_01_traces_without_secrets_are_unchanged() -> None:
    texts = {one.name: plain_text(one.stacktrace) or "" for one in GOLDEN}
    changed = [name for name, text in texts.items() if masked_text(text) != text]
    assert changed == ["vite-query"], "a query's value is masked, also `?t=1699999999999` behind a script"


def test_aut_01_of_two_secrets_that_overlap_both_are_masked() -> None:
    assert masked_text("password=Cookie=one two three\nkept") == f"password={MASK}\nkept"


def test_aut_01_more_secrets_than_a_trace_can_have_are_masked_with_all_behind_them() -> None:
    text = masked_text("password=abc1 " * 3_000 + "the end")
    assert text.endswith(f"password={MASK}")
    assert "abc1" not in text
    assert masked_text(text) == text
