"""What a person may do to webhooks, each once refused and once done, by the way it is asked for (see acts.py)."""

import base64
from collections.abc import Callable

from dpp_project import clock, encryption, env
from dpp_project.settings import ENV
from tenants.webhooks import reach, transitions
from tenants.webhooks.models import DeliveryStatus, WebhookEndpoint
from tests.gear.builders.acts import Act, Case, Scene
from tests.gear.builders.webhooks import NamesOfTests, a_delivery, an_endpoint

CASES: dict[str, Case] = {}


def case(name: str) -> Callable[[Case], Case]:
    def register(made: Case) -> Case:
        CASES[name] = made
        return made

    return register


def webhook_of(it: Scene, status: str = "ENABLED") -> WebhookEndpoint:
    it.monkeypatch.setattr(reach, "webhook_network", NamesOfTests)
    made = an_endpoint(it.shop.tenant)
    if status == "PAUSED":
        assert transitions.pause_endpoint(made.pk, now=clock.now())
    if status == "DISABLED":
        assert transitions.disable_endpoint(made.pk, reason="410", now=clock.now())
    return made


def _of_webhook(do: str, *, refused: str, done: str) -> None:
    """By console and by command, in the states in which it is refused and in which it is done."""
    since = [] if do != "recover" else ["--since", clock.now().isoformat()]

    def by_console(it: Scene) -> tuple[Act, Act]:
        pages = [f"webhooks/webhookendpoint/{webhook_of(it, status).pk}/{do}/" for status in (refused, done)]
        return lambda: it.post(pages[0], hours="1"), lambda: it.post(pages[1], hours="1")

    def by_command(it: Scene) -> tuple[Act, Act]:
        ids = [str(webhook_of(it, status).pk) for status in (refused, done)]
        return lambda: it.command("webhooks", do, ids[0], *since), lambda: it.command("webhooks", do, ids[1], *since)

    CASES.update({f"console webhooks.webhookendpoint {do}": by_console, f"command webhooks {do}": by_command})


_of_webhook("pause", refused="DISABLED", done="ENABLED")
_of_webhook("resume", refused="DISABLED", done="PAUSED")
_of_webhook("recover", refused="PAUSED", done="DISABLED")


def _two_deliveries(it: Scene) -> list[str]:
    """One that is on its way, and one that has failed."""
    statuses = (DeliveryStatus.PENDING, DeliveryStatus.FAILED)
    return [str(a_delivery(webhook_of(it), status).pk) for status in statuses]


@case("console webhooks.webhookdelivery send_again")
def _(it: Scene) -> tuple[Act, Act]:
    pages = [f"webhooks/webhookdelivery/{name}/send_again/" for name in _two_deliveries(it)]
    return lambda: it.post(pages[0]), lambda: it.post(pages[1])


@case("command webhooks redeliver")
def _(it: Scene) -> tuple[Act, Act]:
    pending, failed = _two_deliveries(it)
    return lambda: it.command("webhooks", "redeliver", pending), lambda: it.command("webhooks", "redeliver", failed)


@case("command webhooks rotate")
def _(it: Scene) -> tuple[Act, Act]:
    made = str(webhook_of(it).pk)
    return lambda: it.command("webhooks", "rotate", "none"), lambda: it.command("webhooks", "rotate", made)


@case("command webhooks reencrypt")
def _(it: Scene) -> tuple[Act, Act]:
    webhook_of(it)
    newer = base64.b64encode(b"n" * env.ENCRYPTION_KEY_BYTES).decode()
    changed = ENV.model_copy(update={"DPP_ENCRYPTION_KEYS": [newer, *ENV.DPP_ENCRYPTION_KEYS]})
    it.monkeypatch.setattr(encryption, "ENV", changed)
    return lambda: it.command("webhooks", "reencrypt", "--dry-run"), lambda: it.command("webhooks", "reencrypt")
