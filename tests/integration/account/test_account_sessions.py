"""A session of the account pages: short, of one key, bounded, and never one of the console's (DPP-84)."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.test import Client

from budget.caps import setting
from dpp_project import clock
from dpp_project.audit.models import AuditEntry
from dpp_project.clock import FixedClock
from dpp_project.lifecycle import cleaning
from dpp_project.signin import attempts
from tenants import authentication, rate_limits, services
from tenants.account import sessions
from tenants.models import ApiKey, Tenant
from tests.gear.builders.account import AccountVisitor, a_visitor
from tests.gear.builders.shop import Shop
from tests.gear.builders.tenants import a_key, an_operator_key

pytestmark = [pytest.mark.contract("DPP-84")]

SIGN_IN = "/account/sign-in/"


def test_dpp_84_strangers_are_asked_for_a_key_and_come_back_to_where_they_went(shop: Shop) -> None:
    visitor = AccountVisitor()
    answer = visitor.get("runs/", status="FAILED")
    assert answer.headers["Location"] == f"{SIGN_IN}?next=%2Faccount%2Fruns%2F%3Fstatus%3DFAILED"
    entered = visitor.client.post(
        SIGN_IN, {"key": f" {shop.issued.plaintext}\n", "next": "/account/runs/?status=FAILED"}
    )
    assert entered.headers["Location"] == "/account/runs/?status=FAILED"


@pytest.mark.parametrize(
    "away", ["https://evil.example/", "//evil.example/account/", "/admin/", "/accountx", "javascript:1"]
)
def test_dpp_84_signing_in_leads_nowhere_else(shop: Shop, away: str) -> None:
    entered = AccountVisitor().client.post(SIGN_IN, {"key": shop.issued.plaintext, "next": away})
    assert entered.headers["Location"] == "/account/"


def test_dpp_84_the_cookie_is_for_these_pages_alone(shop: Shop) -> None:
    cookie = a_visitor(shop.issued).client.cookies[sessions.COOKIE]
    assert (cookie["path"], cookie["httponly"], cookie["samesite"]) == ("/account/", True, "Lax")
    assert cookie["max-age"] == 3_600
    assert shop.issued.plaintext not in cookie.value


def test_dpp_84_over_https_the_cookie_is_secure(shop: Shop, settings: object) -> None:
    settings.SESSION_COOKIE_SECURE = True  # type: ignore[attr-defined]
    assert a_visitor(shop.issued).client.cookies[sessions.COOKIE]["secure"] is True


def test_dpp_84_a_session_ends_after_an_hour_however_busy(shop: Shop) -> None:
    visitor = a_visitor(shop.issued)
    (session,) = Session.objects.all()
    left = session.expire_date - clock.now()
    assert timedelta(minutes=59) < left <= timedelta(hours=1)
    visitor.get()
    visitor.post("caps/", act="settings", zone="UTC")  # says something on the next page
    session.refresh_from_db()
    assert session.expire_date - clock.now() <= left
    Session.objects.update(expire_date=clock.now() - timedelta(seconds=1))
    answer = visitor.get()
    assert answer.headers["Location"].startswith(SIGN_IN)
    assert "ended=1" in answer.headers["Location"]


def test_dpp_84_what_was_done_as_the_session_ended_elsewhere_is_no_fault(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor = a_visitor(shop.issued)
    change = setting.change_settings

    def changed(**asked: Any) -> Any:
        Session.objects.all().delete()  # signed out in another tab
        return change(**asked)

    monkeypatch.setattr(setting, "change_settings", changed)
    assert visitor.post("caps/", act="settings", zone="Asia/Seoul").status_code == 302
    assert Tenant.objects.get(pk=shop.tenant.pk).zone == "Asia/Seoul"
    assert visitor.get().headers["Location"].startswith(SIGN_IN)


def test_dpp_84_a_session_ends_with_its_key(shop: Shop) -> None:
    soon = a_key(shop.tenant, expires_at=clock.now() + timedelta(minutes=5))
    a_visitor(soon)
    (session,) = Session.objects.all()
    assert session.expire_date <= clock.now() + timedelta(minutes=5)


@pytest.mark.parametrize("how", ["revoked", "expired", "suspended", "gone"])
def test_dpp_84_with_a_key_that_is_over_the_session_is_at_once(shop: Shop, how: str) -> None:
    visitor = a_visitor(shop.issued)
    assert visitor.get().status_code == 200
    key_id, tenant_id = shop.issued.key.key_id, shop.tenant.tenant_id
    if how == "revoked":
        services.revoke_key(key_id=key_id, actor="test")
    elif how == "expired":
        ApiKey.objects.filter(key_id=key_id).update(expires_at=clock.now() - timedelta(seconds=1))
    elif how == "suspended":
        services.suspend_tenant(tenant_id=tenant_id, actor="test")
    else:
        Session.objects.all().delete()
    for answer in (visitor.get("keys/"), visitor.post("caps/", act="caps", day_usd="1.0000")):
        assert answer.status_code == 302
        assert answer.headers["Location"].startswith(SIGN_IN)
    assert not Session.objects.exists()
    assert not AuditEntry.objects.filter(act="spend caps set").exists()


def test_dpp_84_signing_out_ends_it_for_copies_of_the_cookie_too(shop: Shop) -> None:
    visitor = a_visitor(shop.issued)
    held = visitor.client.cookies[sessions.COOKIE].value
    assert visitor.post("sign-out/").headers["Location"] == SIGN_IN
    thief = Client()
    thief.cookies[sessions.COOKIE] = held
    assert thief.get("/account/").status_code == 302


def test_dpp_84_signing_in_anew_does_not_keep_a_planted_session(shop: Shop) -> None:
    visitor = a_visitor(a_key(shop.tenant))
    planted = visitor.client.cookies[sessions.COOKIE].value
    visitor.signs_in(shop.issued)
    assert visitor.client.cookies[sessions.COOKIE].value != planted
    assert not Session.objects.filter(session_key=planted).exists()


def test_dpp_84_neither_session_opens_the_others_pages(shop: Shop, console: Client) -> None:
    of_console = console.cookies["sessionid"].value
    intruder = Client()
    intruder.cookies[sessions.COOKIE] = of_console
    assert intruder.get("/account/").status_code == 302
    assert Session.objects.filter(session_key=of_console).exists()  # it is not ours to end

    of_account = a_visitor(shop.issued).client.cookies[sessions.COOKIE].value
    intruder = Client()
    intruder.cookies["sessionid"] = of_account
    assert intruder.get("/admin/").status_code == 302
    assert console.get("/account/").status_code == 302


def test_dpp_84_an_operators_key_has_no_account(shop: Shop) -> None:
    answer = AccountVisitor().client.post(SIGN_IN, {"key": an_operator_key().plaintext})
    assert answer.status_code == 403
    assert "console" in answer.content.decode()
    assert not Session.objects.exists()


def test_dpp_84_a_form_without_its_token_does_nothing(shop: Shop) -> None:
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    assert client.post(SIGN_IN, {"key": shop.issued.plaintext}).status_code == 403
    visitor = a_visitor(shop.issued)
    client.cookies[sessions.COOKIE] = visitor.client.cookies[sessions.COOKIE].value
    assert client.get("/account/").status_code == 200
    assert client.post("/account/caps/", {"act": "caps", "day_usd": "1.0000"}).status_code == 403
    assert not AuditEntry.objects.filter(act="spend caps set").exists()


def test_dpp_84_failed_attempts_of_an_address_are_bounded_and_a_right_key_waits_too(shop: Shop) -> None:
    visitor = AccountVisitor()
    wrong = f"dpp_AAAAAAAA_{'B' * 43}"
    for _ in range(attempts.ADDRESS_FAILURES_MAX):
        answer = visitor.client.post(SIGN_IN, {"key": wrong})
        assert (answer.status_code, "not valid" in answer.content.decode()) == (403, True)
        assert wrong not in answer.content.decode()
    answer = visitor.client.post(SIGN_IN, {"key": shop.issued.plaintext})
    assert (answer.status_code, "Too many" in answer.content.decode()) == (429, True)
    assert AuditEntry.objects.filter(act=attempts.FAILED).count() == attempts.ADDRESS_FAILURES_MAX
    elsewhere = Client(REMOTE_ADDR="198.51.100.7").post(SIGN_IN, {"key": shop.issued.plaintext})
    assert elsewhere.status_code == 302


def test_dpp_84_what_has_not_the_form_of_a_key_costs_nothing(db: None) -> None:
    for text in ("", "dpp_short", "x" * 5_000, "dpp_AAAAAAAA_" + "ㄱ" * 43):
        answer = Client().post(SIGN_IN, {"key": text})
        assert (answer.status_code, "not an API key" in answer.content.decode()) == (403, True)
    assert not AuditEntry.objects.exists()


def test_dpp_84_pages_have_a_bucket_of_their_own(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limits, "PAGES_PER_MINUTE", 3)
    visitor = a_visitor(shop.issued)  # takes the first
    assert [visitor.get().status_code for _ in range(3)] == [200, 200, 429]
    assert shop.get("/v1/whoami").status_code == 200


def test_dpp_84_a_sign_in_is_told_to_the_tenant(shop: Shop) -> None:
    page = a_visitor(shop.issued).text("activity/")
    assert "signed in to the account pages" in page
    assert f"owner:dpp_{shop.issued.key.prefix}" in page


def test_dpp_84_a_session_reads_its_key_anew(shop: Shop, clock: FixedClock) -> None:
    """Not from the memory of keys, which may be 4 s old."""
    visitor = a_visitor(shop.issued)
    assert len(authentication.memory) == 1
    services.revoke_key(key_id=shop.issued.key.key_id, actor="test")
    assert visitor.get().status_code == 302


def test_dpp_84_sessions_that_are_over_are_deleted_and_no_others(shop: Shop) -> None:
    a_visitor(shop.issued)
    a_visitor(shop.issued)
    over = Session.objects.order_by("pk").first()
    assert over is not None
    Session.objects.filter(pk=over.pk).update(expire_date=clock.now() - timedelta(days=1, seconds=1))
    for changed in (1, 0):
        assert cleaning.clean_now(now=clock.now(), limit=10, only="sessions").changed == changed
    assert Session.objects.count() == 1


def test_dpp_84_signing_in_again_and_again_is_bounded_too(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limits, "PAGES_PER_MINUTE", 2)
    answers = [Client().post(SIGN_IN, {"key": shop.issued.plaintext}).status_code for _ in range(3)]
    assert answers == [302, 302, 429]
    assert Session.objects.count() == 2
