"""Faults in the account pages: whose they are, who gets in, for how long, and what a key may do there."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

sessions = In("integration/account/test_account_sessions")
pages = In("integration/account/test_account_pages")
matrix = In("acceptance/test_isolation_account")

SESSIONS: Final = "tenants/account/sessions.py"
PAGE: Final = "tenants/account/page.py"
SIGNING_IN: Final = "tenants/account/signing_in.py"
OVER: Final = sessions("test_dpp_84_with_a_key_that_is_over_the_session_is_at_once")

MUTANTS: Final = (
    Mutant(
        "a page that was open takes away a cap that was set since",
        "budget/forms.py",
        "        return shown is None or shown != self.data.get(",
        "        return bool(self.data) or shown != self.data.get(",
        pages("test_cap_01_a_page_that_was_open_takes_no_cap_away_that_was_set_since"),
    ),
    Mutant(
        "a session outlives its key",
        "tenants/authentication.py",
        "    finding = RefusedKey.UNKNOWN if row is None else _standing(row)\n",
        "    finding = RefusedKey.UNKNOWN if row is None else _standing(row)\n"
        "    if finding in {RefusedKey.REVOKED, RefusedKey.SUSPENDED}:\n"
        "        row.status, row.tenant.status = ApiKey.Status.ACTIVE, Tenant.Status.ACTIVE\n"
        "        finding = _standing(row)\n",
        OVER,
    ),
    Mutant(
        "a session outlives the end of its key",
        "tenants/authentication.py",
        "    if isinstance(finding, Principal) and finding.has_expired(clock.now()):\n",
        "    if finding is RefusedKey.EXPIRED:\n",
        OVER,
    ),
    Mutant(
        "a session never ends by itself",
        SESSIONS,
        "    store.set_expiry(ends if principal.expires_at is None else min(ends, principal.expires_at))\n",
        "",
        sessions("test_dpp_84_a_session_ends_after_an_hour_however_busy"),
    ),
    Mutant(
        "signing out leaves the session",
        SESSIONS,
        "            store.delete()\n",
        "            pass\n",
        sessions("test_dpp_84_signing_out_ends_it_for_copies_of_the_cookie_too"),
    ),
    Mutant(
        "the cookie goes to every address",
        SESSIONS,
        "        path=PATH,\n        secure",
        '        path="/",\n        secure',
        sessions("test_dpp_84_the_cookie_is_for_these_pages_alone"),
    ),
    Mutant(
        "scripts read the cookie",
        SESSIONS,
        "        httponly=True,\n",
        "",
        sessions("test_dpp_84_the_cookie_is_for_these_pages_alone"),
    ),
    Mutant(
        "an operator's key has an account",
        SIGNING_IN,
        "    if principal.tenant_id == OPERATOR_TENANT_ID:\n",
        "    if not principal.tenant_id:\n",
        sessions("test_dpp_84_an_operators_key_has_no_account"),
    ),
    Mutant(
        "attempts have no bound",
        SIGNING_IN,
        "    if attempts.address_failed_too_often():\n",
        "    if attempts.network() is None:\n",
        sessions("test_dpp_84_failed_attempts_of_an_address_are_bounded_and_a_right_key_waits_too"),
    ),
    Mutant(
        "signing in leads anywhere",
        "tenants/account/views.py",
        "    return wanted if inside else",
        "    return wanted if wanted or inside else",
        sessions("test_dpp_84_signing_in_leads_nowhere_else"),
    ),
    Mutant(
        "no page asks for a scope",
        PAGE,
        "        if not menu.menu_allows(self.principal, needs):\n",
        "        if needs is None:\n",
        matrix("test_dpp_84_without_the_scope_every_page_is_refused"),
    ),
    Mutant(
        "a key's page is anybody's",
        "budget/account/key_pages.py",
        "    keys = ApiKey.objects.filter(tenant_id=page.tenant_id)\n",
        "    keys = ApiKey.objects.all()\n",
        matrix("test_dpp_84_another_tenants_thing_is_answered_as_none"),
    ),
    Mutant(
        "a page tells a thing of another tenant from none",
        PAGE,
        "            problem = Problem(ReasonCode.NOT_FOUND, NOT_FOUND_DETAIL)\n",
        "            pass\n",
        matrix("test_dpp_84_another_tenants_thing_is_answered_as_none"),
    ),
    Mutant(
        "a narrow key sees all keys",
        "budget/account/key_pages.py",
        "    return keys if page.may(Scope.KEYS_WRITE) else keys.filter(key_id=page.principal.key_id)\n",
        "    return keys\n",
        pages("test_dpp_84_without_keys_write_a_key_sees_itself_alone"),
    ),
    Mutant(
        "a capped key sets caps on its page",
        "budget/account/key_pages.py",
        "        actor=page.actor,\n        asking=AskingKey.of(page.principal),\n",
        "        actor=page.actor,\n",
        pages("test_cap_01_a_capped_key_changes_no_caps"),
    ),
    Mutant(
        "an account page may be cached",
        PAGE,
        "    patch_cache_control(response, private=True, no_store=True)\n",
        "",
        pages("test_dpp_84_each_page_is_shown_to_a_tenant_with_nothing_yet"),
    ),
)
