"""How operators sign in, and what keeps others from it (HRD-13)."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import connection
from django.test import Client, override_settings

from dpp_project import clock
from dpp_project.audit.models import AuditEntry
from dpp_project.signin import attempts, sign_in, totp
from dpp_project.signin.models import SecondFactor
from tenants.models import Tenant
from tests.gear.builders.console import page
from tests.gear.builders.tenants import a_tenant

pytestmark = [pytest.mark.django_db, pytest.mark.contract("HRD-13")]

LOGIN, HOME = "/admin/login/", "/admin/"
PASSWORD = "ae-4-thirty-two"
HERE, ELSEWHERE = "192.0.2.7", "203.0.113.9"


@pytest.fixture(autouse=True)
def ada(settings: Any) -> User:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    return User.objects.create_superuser("ada", password=PASSWORD)


def try_in(client: Client, password: str = PASSWORD, *, name: str = "ada", code: str = "", place: str = HERE) -> str:
    """What came of it, by its words."""
    sent = {"username": name, "password": password, "code": code, "next": HOME}
    answer = client.post(LOGIN, sent, REMOTE_ADDR=place)
    if answer.status_code == 302:
        return "in"
    text = answer.content.decode()
    return "throttled" if "Too many failed" in text else "wrong" if "is wrong" in text else text


def failures() -> list[tuple[str, str]]:
    found = AuditEntry.objects.filter(act=attempts.FAILED).order_by("pk")
    return [(entry.subject, entry.place) for entry in found]


def minutes_pass(minutes: int) -> None:
    """For the trail: its entries grow older; its guard looks away meanwhile."""
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("UPDATE audit_entries SET at = at - make_interval(mins => %s)", [minutes])
        cursor.execute("SET session_replication_role = origin")


def test_hrd_13_an_operator_signs_in_and_it_is_written_down(client: Client) -> None:
    assert try_in(client) == "in"
    entry = AuditEntry.objects.all()[0]
    assert (entry.act, entry.actor, entry.source, entry.place) == ("signed in", "operator:ada", "console", HERE)
    assert client.get(HOME).status_code == 200


@pytest.mark.parametrize(("name", "password"), [("ada", "wrong"), ("nobody", PASSWORD), ("eve", PASSWORD)])
def test_hrd_13_a_failed_attempt_is_recorded_with_name_and_address(client: Client, name: str, password: str) -> None:
    User.objects.create_user("eve", password=PASSWORD)  # no staff
    assert try_in(client, password, name=name) == "wrong"
    assert failures() == [(f"operator {name}", HERE)]
    assert "wrong" not in str(list(AuditEntry.objects.values("subject", "after", "reason", "before")))
    assert client.get(HOME).status_code == 302


def test_hrd_13_five_failures_of_a_name_refuse_it_to_strangers_wherever_they_come_from(client: Client) -> None:
    for number in range(sign_in.NAME_FAILURES_MAX):
        assert try_in(client, "wrong", place=f"198.51.100.{number}", name=("ada", "ADA", "Ada ")[number % 3]) == "wrong"
    before = AuditEntry.objects.count()
    assert try_in(client, PASSWORD, place=ELSEWHERE) == "throttled", "the right password, too"
    assert AuditEntry.objects.count() == before, "what is refused prolongs nothing"
    minutes_pass(14)
    assert try_in(client, PASSWORD, place=ELSEWHERE) == "throttled"
    minutes_pass(2)
    assert try_in(client, PASSWORD, place=ELSEWHERE) == "in"


def test_hrd_13_an_attacker_does_not_lock_an_operator_out_of_her_own_browser(client: Client) -> None:
    assert try_in(client) == "in"
    client.post("/admin/logout/")
    attacker = Client()
    for number in range(attempts.ADDRESS_FAILURES_MAX):
        try_in(attacker, "wrong", place=HERE, name=f"name-{number}")
        try_in(attacker, "wrong", place=f"198.51.100.{number}")
    assert try_in(Client(), place=ELSEWHERE) == "throttled"
    assert try_in(Client(), place=HERE) == "throttled"
    assert try_in(client, place=HERE) == "in"


def test_hrd_13_her_own_browser_has_a_bound_of_its_own_and_only_for_her(client: Client) -> None:
    assert try_in(client) == "in"
    client.post("/admin/logout/")
    User.objects.create_superuser("bob", password=PASSWORD)
    for _ in range(sign_in.DEVICE_FAILURES_MAX):
        assert try_in(client, "wrong") == "wrong"
    assert try_in(client) == "throttled"
    assert try_in(Client(), place=ELSEWHERE) == "in", "another browser was not counted with it"
    for _ in range(sign_in.NAME_FAILURES_MAX):
        assert try_in(client, "wrong", name="bob") == "wrong"
    assert try_in(client, name="bob") == "throttled", "the cookie is hers, not his"


def test_hrd_13_a_forged_browser_cookie_is_none(client: Client) -> None:
    client.cookies["dpp_device"] = "eyJuYW1lIjoiYWRhIn0:1xxxxx:forged"
    for _ in range(sign_in.NAME_FAILURES_MAX):
        try_in(client, "wrong")
    assert try_in(client) == "throttled"


@pytest.mark.parametrize(
    ("first", "second", "refused"),
    [
        ("198.51.100.1", "198.51.100.1", True),
        ("198.51.100.1", "198.51.100.2", False),
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
    ],
)
def test_hrd_13_twenty_failures_of_an_address_refuse_it(
    client: Client, first: str, second: str, *, refused: bool
) -> None:
    for number in range(attempts.ADDRESS_FAILURES_MAX):
        assert try_in(client, "wrong", name=f"name-{number}", place=first) == "wrong"
    assert try_in(client, place=second) == ("throttled" if refused else "in")


def test_hrd_13_a_session_ends_twelve_hours_after_its_login_however_busy(client: Client) -> None:
    before = clock.now()
    assert try_in(client) == "in"
    first = client.session.get_expiry_date()
    assert timedelta(hours=12) <= first - before <= timedelta(hours=12, minutes=1)
    session = client.session
    session["touched"] = True
    session.save()
    assert client.session.get_expiry_date() == first


def test_hrd_13_cookies_are_for_this_site_alone(client: Client) -> None:
    header = ("HTTP_X_FORWARDED_PROTO", "https")
    secure = {"SESSION_COOKIE_SECURE": True, "CSRF_COOKIE_SECURE": True, "SECURE_PROXY_SSL_HEADER": header}
    with override_settings(**secure):
        client.get(LOGIN)
        assert try_in(client) == "in"
    for name in ("sessionid", "csrftoken", "dpp_device"):
        cookie = client.cookies[name]
        assert (cookie["httponly"], cookie["secure"]) == (True, True), name
        assert cookie["samesite"] in {"Lax", "Strict"}, name


@pytest.mark.parametrize("password", ["short-one-4", "password1234", "839274618273", "ada-ada-ada1"])
def test_hrd_13_a_weak_password_is_refused_in_the_console(console: Client, password: str) -> None:
    sent = {"username": "ada-ada-ada", "usable_password": "true", "password1": password, "password2": password}
    assert console.post("/admin/auth/user/add/", sent).status_code == 200
    assert not User.objects.filter(username="ada-ada-ada").exists()
    with pytest.raises(ValidationError):
        validate_password(password, User(username="ada-ada-ada"))


@pytest.fixture
def console() -> Client:
    """Another superuser: ada has a password here."""
    client = Client()
    client.force_login(User.objects.create_superuser("zoe"))
    return client


# The second factor.


def code_of(factor: SecondFactor, *, steps: int = 0) -> str:
    return totp.totp_code(factor.secret, totp.step_at(clock.now().timestamp()) + steps)


def set_up(client: Client) -> SecondFactor:
    shown = client.get("/admin/second-factor/").content.decode()
    secret = client.session["second_factor_offered"]
    assert secret[:4] in shown
    sent = {"code": totp.totp_code(secret, totp.step_at(clock.now().timestamp()) - 1), "password": PASSWORD}
    for wrong in ({"code": "000000"}, {"password": "wrong"}, {"password": ""}):
        assert client.post("/admin/second-factor/", sent | wrong).status_code == 200
        assert not SecondFactor.objects.exists()
    assert client.post("/admin/second-factor/", sent).status_code == 302
    return SecondFactor.objects.get()


def test_hrd_13_an_operator_sets_up_a_second_factor_and_is_asked_for_it(client: Client, ada: User) -> None:
    assert try_in(client) == "in"
    factor = set_up(client)
    assert factor.user == ada
    assert AuditEntry.objects.all()[0].act == "second factor set up"
    assert factor.secret not in str(list(AuditEntry.objects.values()))
    client.post("/admin/logout/")
    code = code_of(factor)
    assert try_in(client) == "wrong"
    assert try_in(client, code="000000") == "wrong"
    assert try_in(client, "wrong", code=code) == "wrong"
    assert try_in(client, code=code) == "in"
    assert try_in(Client(), code=code) == "wrong", "a code is good once"


def test_hrd_13_a_second_factor_is_taken_away_by_a_code_or_by_another_operator(client: Client, console: Client) -> None:
    assert try_in(client) == "in"
    factor = set_up(client)
    shown = client.get("/admin/second-factor/").content.decode()
    assert factor.secret[:4] not in shown, "it is not shown again"
    assert client.post("/admin/second-factor/", {"code": "000000"}).status_code == 200
    assert SecondFactor.objects.exists()
    path = f"/admin/auth/user/{factor.user_id}/"
    assert f"{path}remove_second_factor/" in page(console, f"{path}change/")
    assert console.post(f"{path}remove_second_factor/").status_code == 302
    assert not SecondFactor.objects.exists()
    assert f"{path}remove_second_factor/" not in page(console, f"{path}change/")


def test_hrd_13_a_session_guesses_the_code_no_longer_than_a_stranger(client: Client) -> None:
    """Three codes of a million are right at any moment, and a session lasts for twelve hours."""
    assert try_in(client) == "in"
    factor = set_up(client)
    wrong = sign_in.DEVICE_FAILURES_MAX - len(failures())
    for _ in range(wrong):
        assert client.post("/admin/second-factor/", {"code": "000000"}).status_code == 200
    answer = client.post("/admin/second-factor/", {"code": code_of(factor)})
    assert (answer.status_code, SecondFactor.objects.exists()) == (200, True)
    assert "Too many failed attempts" in answer.content.decode()
    assert len(failures()) == sign_in.DEVICE_FAILURES_MAX, "what is refused is not counted"


def test_hrd_13_ones_own_password_change_is_written_down(client: Client) -> None:
    assert try_in(client) == "in"
    sent = {"old_password": PASSWORD, "new_password1": "another-long-one", "new_password2": "another-long-one"}
    assert client.post("/admin/password_change/", sent | {"new_password2": "x"}).status_code == 200
    assert AuditEntry.objects.all()[0].act == "signed in"
    assert client.post("/admin/password_change/", sent).status_code == 302
    assert (AuditEntry.objects.all()[0].act, AuditEntry.objects.all()[0].actor) == (
        "own password changed",
        "operator:ada",
    )


# What staff see, and what stays when they go.


def test_hrd_13_staff_without_permissions_see_no_figures_on_any_page(client: Client) -> None:
    from django.contrib import admin

    bob = User.objects.create_user("bob", is_staff=True)
    client.force_login(bob)
    a_tenant()
    shown = client.get(HOME)
    assert shown.context["panels"] == []
    assert "no permission to see any figures" in shown.content.decode()
    for model in admin.site._registry:
        base = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
        subject = model._default_manager.first()
        paths = [base, f"{base}add/", *([f"{base}{subject.pk}/change/"] if subject else [])]
        assert {client.get(path).status_code for path in paths} == {403}, model
    assert "t_x" not in client.get("/admin/search/?s=t_x").content.decode().replace("s=t_x", "")


def test_hrd_13_each_panel_asks_for_its_permission(client: Client) -> None:
    bob = User.objects.create_user("bob", is_staff=True)
    client.force_login(bob)
    bob.user_permissions.add(Permission.objects.get(codename="view_tenant"))
    assert [panel.title for panel in client.get(HOME).context["panels"]] == ["Tenants and keys"]


def test_hrd_13_the_log_outlives_its_operator(console: Client, client: Client, ada: User) -> None:
    tenant = a_tenant()
    client.force_login(ada)
    client.post(f"/admin/tenants/tenant/{tenant.pk}/suspend/")
    assert Tenant.objects.get(pk=tenant.pk).status == "SUSPENDED"
    (logged,) = LogEntry.objects.all()
    path = f"/admin/auth/user/{ada.pk}/delete/"
    assert "log entr" not in page(console, path).lower()
    assert console.post(path, {"post": "yes"}).status_code == 302
    assert not User.objects.filter(pk=ada.pk).exists()
    logged.refresh_from_db()
    assert (logged.object_id, logged.user.is_active, logged.user.has_usable_password()) == (tenant.pk, False, False)
    assert AuditEntry.objects.get(act="tenant suspended").actor == "operator:ada"
    assert AuditEntry.objects.get(act="user deleted").subject == "user ada"
    assert console.get(f"/admin/auth/user/{logged.user_id}/delete/").status_code == 403


# What a page may load.


@pytest.mark.parametrize(
    "path", [LOGIN, HOME, "/admin/audit/auditentry/", "/docs/", "/docs/api/", "/docs/reference/", "/docs/problems/"]
)
def test_hrd_13_every_page_carries_a_policy_and_no_inline_script(console: Client, path: str) -> None:
    answer = (Client() if path == LOGIN else console).get(path)
    policy = answer.headers["Content-Security-Policy"]
    script = "'self' 'unsafe-eval'" if path.startswith("/admin/") else "'self'"
    assert f"script-src {script};" in policy
    assert "default-src 'none'" in policy
    text = answer.content.decode()
    assert "<script>" not in text
    assert " onclick=" not in text


def test_hrd_13_the_api_carries_none(client: Client) -> None:
    assert "Content-Security-Policy" not in client.get("/v1/openapi.json").headers
