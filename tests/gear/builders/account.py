"""A person at the account pages, signed in with a key of her tenant."""

from dataclasses import dataclass, field
from typing import Any

from django.test import Client

from tenants.account import sessions
from tenants.services import IssuedKey

ACCOUNT = "/account/"
OPEN = {"account", "account/sign-in/", "account/sign-out/"}
"""What a stranger may ask for."""


@dataclass(frozen=True)
class AccountAddress:
    """A page by its route. `posts` are the forms that change something; `thing` names whose id stands in the route."""

    posts: tuple[dict[str, str], ...] = ()
    thing: str = ""


KEY_FORMS = ({"act": "rotate", "grace_sec": "3600"}, {"act": "revoke"}, {"act": "caps", "day_usd": "1.0000"})
WEBHOOK_ACTS = ("pause", "resume", "test", "rotate", "redeliver", "recover", "delete")
PAGES: dict[str, AccountAddress] = {
    "account/": AccountAddress(),
    "account/activity/": AccountAddress(),
    "account/statement/": AccountAddress(),
    "account/statement.csv": AccountAddress(),
    "account/usage/": AccountAddress(),
    "account/usage.csv": AccountAddress(),
    "account/keys/": AccountAddress(({"scopes": "runs:read", "label": "x"},)),
    "account/keys/<str:key_id>/": AccountAddress(KEY_FORMS, thing="key"),
    "account/caps/": AccountAddress(
        ({"act": "caps", "day_usd": "1.0000"}, {"act": "settings", "zone": "Europe/Berlin", "low_usd": "1.0000"})
    ),
    "account/runs/": AccountAddress(),
    "account/runs/<str:run_id>/": AccountAddress(({},), thing="run"),
    "account/webhooks/": AccountAddress(({"url": "https://203.0.113.1/", "events": "run.failed"},)),
    "account/webhooks/<str:webhook_id>/": AccountAddress(
        tuple({"act": act, "delivery": "x", "since": "2026-03-01T00:00"} for act in WEBHOOK_ACTS), thing="webhook"
    ),
    "account/workspaces/": AccountAddress(),
}
"""Every address of the account pages."""


@dataclass
class AccountVisitor:
    """A browser with cookies of its own, which checks the forms' tokens as a real one would have them."""

    client: Client = field(default_factory=lambda: Client(raise_request_exception=False))

    def signs_in(self, issued: IssuedKey) -> "AccountVisitor":
        answer = self.client.post("/account/sign-in/", {"key": issued.plaintext})
        assert answer.status_code == 302, answer.content
        assert sessions.COOKIE in self.client.cookies
        return self

    def get(self, path: str = "", **query: Any) -> Any:
        return self.client.get(f"{ACCOUNT}{path}", query)

    def post(self, path: str, **values: Any) -> Any:
        return self.client.post(f"{ACCOUNT}{path}", values)

    def text(self, path: str = "", **query: Any) -> str:
        answer = self.get(path, **query)
        assert answer.status_code == 200, (path, answer.status_code)
        return str(answer.content.decode())


def a_visitor(issued: IssuedKey) -> AccountVisitor:
    return AccountVisitor().signs_in(issued)
