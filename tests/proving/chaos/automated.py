"""A tenant whose automations buy: services send signed hooks, rules make runs of them, results come back as messages.

Two hook sources, one as GitHub signs and one by Standard Webhooks, send what happens until it is answered with 202, now
and then twice, and note each. A rule of each source buys the probe pack; most events are work, some fail at each
attempt, some lack what the rule's template names, some no rule wants. Messages go to the receiver, with the sources'
secret.
"""

import hashlib
import hmac
import json
import random
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError

from dpp_project.devstack.http import HttpAnswer
from tenants.webhooks import signing
from tests.proving.chaos.customers import PAUSE_FIRST_SECONDS, PAUSE_MAX_SECONDS, Account, Customers, usd
from tests.proving.chaos.receiver import NAME, Endpoint, Receiver
from tests.proving.chaos.stand import Stand

PATH: Final = "/automations"
FORMS: Final = ("github", "standard")
"""Each is the name of its source, too; messages go to the second's address."""
TARGET: Final = FORMS[1]
ENVIRON: Final = {"DPP_AUTOMATIONS_NOTIFY": f"webhook:{TARGET}"}
FUNDS_MICROS: Final = 20_000_000
CEILING_USD: Final = "0.0500"
COST_STEPS: Final = 100
"""Below 0.0100 USD an attempt."""
RETRIES: Final = 2
WANTED: Final = (("work", 70), ("fail", 12), ("lack", 6), ("ignore", 12))
"""What an event asks for, and how often of a hundred."""


@dataclass(frozen=True)
class Happening:
    """One event that a service was told it had handed over."""

    source: str
    event_id: str
    wants: str
    times: int


@dataclass
class HookNotes:
    """What the services know."""

    happened: list[Happening] = field(default_factory=list)
    guard: threading.Lock = field(default_factory=threading.Lock)


class AutomatedTenant:
    """`said` is the place where the messages come."""

    def __init__(self, stand: Stand, customers: Customers, account: Account, receiver: Receiver, *, seed: int) -> None:
        self._customers = customers
        self._api = stand.api
        self.account = account
        self.notes = HookNotes()
        customers.deposit(account, FUNDS_MICROS, random.Random(f"{seed} automations"))  # noqa: S311  no secret
        _managed(stand, "tenant", account.tenant_id, "--by", "chaos")
        self._secrets = {form: _source(stand, form) for form in FORMS}
        for form in FORMS:
            self._add_rule(form, stand.values["DPP_OPERATOR_KEY"])
        self.said = Endpoint(receiver.mailbox, PATH, "", self._secrets[TARGET])

    def _add_rule(self, form: str, operator_key: str) -> None:
        rule = {
            "name": f"chaos-{form}",
            "source": form,
            "tenant": self.account.tenant_id,
            "filter": 'event.body.wants != "ignore"',
            "pack_type": "probe",
            "inputs": {
                "cost_usd": {"$": "event.body.cost_usd"},
                "fail": {"$": "event.body.fail", "else": False},
                "sleep_ms": {"$": "event.body.sleep_ms"},
            },
            "max_cost_usd": CEILING_USD,
            "timebox_sec": 60,
            "retries": RETRIES,
            "runs_per_hour": 100_000,
            "usd_per_day": "1000.0000",
            "notify": {"channel": "webhook", "target": TARGET},
        }
        answer = self._customers.call("POST", "/api/automations/rules", operator_key, send=rule)
        if answer is None or answer.status != 201 or not answer.body["enabled"]:
            raise RuntimeError(f"no rule: {answer}")

    def parts(self) -> Iterator[Callable[[random.Random], None]]:
        """What the services do over and over, each in a thread of its own."""
        for form in FORMS:
            yield partial(self._happen, form)

    def _happen(self, form: str, chance: random.Random) -> None:
        (wants,) = chance.choices([one for one, _ in WANTED], weights=[often for _, often in WANTED])
        times = 2 if chance.random() < 0.1 else 1
        self.happens(form, chance, wants=wants, sleep_ms=chance.choice([1, 20, 200]), times=times)
        self._customers.leaving.wait(chance.uniform(0.3, 1.5))

    def happens(self, form: str, chance: random.Random, *, wants: str, sleep_ms: int, times: int = 1) -> None:
        """One event, handed over so many times."""
        said: dict[str, Any] = {"type": "chaos", "number": uuid.uuid4().hex, "wants": wants}
        said |= {"sleep_ms": sleep_ms, "fail": wants == "fail"}
        if wants != "lack":
            said["cost_usd"] = usd(chance.randrange(COST_STEPS) * 100)
        body = json.dumps(said).encode()
        event_id = said["number"] if form == "standard" else "sha256:" + hashlib.sha256(body).hexdigest()
        if all(self._handed_over(form, event_id, body, chance) for _ in range(times)):
            with self.notes.guard:
                self.notes.happened.append(Happening(form, event_id, wants, times))

    def _handed_over(self, form: str, event_id: str, body: bytes, chance: random.Random) -> bool:
        """Until it is taken, as services repeat. Refused as unsigned is a signature that a wrong clock calls old."""
        pause = PAUSE_FIRST_SECONDS
        while not self._customers.closing.is_set():
            answer = self._hook(form, event_id, body)
            self._customers.books.heard(f"hook of {form}", answer)
            if answer is not None and answer.status == 202:
                return True
            if answer is not None and answer.status not in {401, 429} and answer.status < 500:
                self._customers.books.complain(f"a hook was refused: {answer.status} {answer.body}")
            self._customers.closing.wait(pause * chance.uniform(0.7, 1.3))
            pause = min(PAUSE_MAX_SECONDS, pause * 1.6)
        self._customers.books.complain(f"the event {event_id} of {form} was never taken")
        return False

    def _hook(self, form: str, event_id: str, body: bytes) -> HttpAnswer | None:
        secret, now = self._secrets[form], datetime.fromtimestamp(time.time(), tz=UTC)
        headers = {"content-type": "application/json"}
        if form == "standard":
            headers |= dict(signing.signature_headers(webhook_id=event_id, at=now, body=body, secrets=[secret]))
        else:
            headers["x-hub-signature-256"] = f"sha256={hmac.digest(secret.encode(), body, 'sha256').hex()}"
        request = urllib.request.Request(  # noqa: S310  loopback
            f"{self._api}/api/automations/hooks/{form}", method="POST", data=body, headers=headers
        )
        try:
            with _direct.open(request, timeout=10) as answer:
                return HttpAnswer(answer.status, dict(answer.headers), json.loads(answer.read()))
        except HTTPError as error:
            with error:
                return HttpAnswer(error.code, dict(error.headers), _json(error.read()))
        except (OSError, HTTPException, ValueError):
            return None


_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _json(body: bytes) -> dict[str, Any]:
    try:
        loaded = json.loads(body)
    except ValueError:
        return {}
    return loaded if isinstance(loaded, dict) else {}


def _source(stand: Stand, form: str) -> str:
    """Its signing secret, which is shown once."""
    config = {"form": form} | ({"url": f"https://{NAME}{PATH}"} if form == TARGET else {})
    told = _managed(stand, "source", "make", form, "--kind", "HOOK", "--config", json.dumps(config), "--json")
    return str(json.loads(told)["secret"])


def _managed(stand: Stand, *arguments: str) -> str:
    done = stand.manage("automations", *arguments)
    if done.returncode:
        raise RuntimeError(f"automations {arguments}: {done.stdout} {done.stderr}")
    return done.stdout
