"""manage.py webhooks list, webhooks pause ID, webhooks recover ID --since 2026-03-01T00:00:00Z, webhooks reencrypt"""

import uuid
from datetime import datetime
from typing import Any, Final

from django.core.management.base import CommandParser
from pydantic import AwareDatetime, TypeAdapter, ValidationError

from dpp_project import actors
from dpp_project.management.base import (
    CommandAnswer,
    CommandRefused,
    OpsCommand,
    changes_undone_if,
    unless_refused,
    within_limit,
)
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal, invalid
from tenants.webhooks import encrypting, registration, selectors, services
from tenants.webhooks.models import EndpointStatus, WebhookDelivery, WebhookEndpoint

LISTED: Final = 50
LISTED_MAX: Final = 1_000
SHOWN_ONCE: Final = "This is the only time it is shown: hand it to the webhook's owner now."
ACTS: Final = ("list", "show", "pause", "resume", "recover", "redeliver", "rotate", "reencrypt")


class Command(OpsCommand):
    help = (
        "Webhooks of tenants: list them, show one with its latest deliveries, pause, resume or recover one, send a "
        "delivery again, rotate a signing secret, encrypt all secrets anew under the first of DPP_ENCRYPTION_KEYS."
    )
    changes = True

    def declare(self, parser: CommandParser) -> None:
        parser.add_argument("do", choices=ACTS)
        parser.add_argument("subject", nargs="?", default="", help="the webhook's id; redeliver: the delivery's")
        parser.add_argument("--tenant", help="list: only webhooks of this one")
        parser.add_argument("--since", default="", help="recover: from when on, such as 2026-03-01T00:00:00Z")
        parser.add_argument("--limit", type=int, default=LISTED, help=f"list and show: at most so many ({LISTED})")

    def run(self, *, dry_run: bool, **options: Any) -> CommandAnswer:
        match options["do"]:
            case "list":
                return _webhook_list_answer(options)
            case "reencrypt":
                return _reencrypt(dry_run=dry_run)
            case "redeliver":
                with changes_undone_if(dry_run):
                    return _redeliver(options["subject"])
            case "show":
                return _shown_webhook_answer(
                    _webhook_named_by_subject(options["subject"]), limit=within_limit(options["limit"], LISTED_MAX)
                )
        with changes_undone_if(dry_run):
            return _acted(
                options["do"], _webhook_named_by_subject(options["subject"]), options["since"], dry_run=dry_run
            )


def _acted(do: str, endpoint: WebhookEndpoint, since: str, *, dry_run: bool) -> CommandAnswer:
    ids: dict[str, Any] = {
        "tenant_id": endpoint.tenant_id,
        "endpoint_id": endpoint.endpoint_id,
        "actor": actors.COMMAND,
    }
    if do == "recover":
        recovered = unless_refused(services.recover_endpoint(**ids, since=_since_of_webhook_recovery(since)))
        document = _listed_webhook_document(recovered.endpoint) | {"deliveries": recovered.deliveries}
        return CommandAnswer(
            document, [_listed_webhook_line(recovered.endpoint)], [f"{recovered.deliveries} deliveries are sent."]
        )
    if do == "rotate":
        issued = unless_refused(services.rotate_endpoint_secret(**ids))
        secret = None if dry_run else issued.secret
        lines = [] if secret is None else [secret]
        return CommandAnswer(
            _listed_webhook_document(endpoint) | {"secret": secret}, lines, [] if dry_run else [SHOWN_ONCE]
        )
    status = EndpointStatus.PAUSED if do == "pause" else EndpointStatus.ENABLED
    changed = unless_refused(services.change_endpoint(**ids, status=status))
    return CommandAnswer(_listed_webhook_document(changed), [_listed_webhook_line(changed)])


def _redeliver(delivery_id: str) -> CommandAnswer:
    try:
        delivery = WebhookDelivery.objects.select_related("endpoint").filter(pk=uuid.UUID(delivery_id)).first()
    except ValueError:
        delivery = None
    if delivery is None:
        raise CommandRefused(Refusal(ReasonCode.NOT_FOUND, "there is no such delivery; see webhooks show", "subject"))
    again = unless_refused(
        services.redeliver_webhook(
            tenant_id=delivery.endpoint.tenant_id, delivery_id=delivery.delivery_id, actor=actors.COMMAND
        )
    )
    return CommandAnswer(_delivery(again), [f"{again.pk}  {again.status}"])


def _reencrypt(*, dry_run: bool) -> CommandAnswer:
    done = unless_refused(encrypting.reencrypt_secrets(actor=actors.COMMAND, dry_run=dry_run))
    said = f"{done.changed} secrets {'lie under older keys' if dry_run else 'were encrypted anew'}"
    lost = [f"no key opens the secret of webhook {one}" for one in done.unreadable]
    document = {"changed": done.changed, "unreadable": done.unreadable}
    return CommandAnswer(document, [said], lost, exit_code=1 if lost else 0)


def _webhook_list_answer(options: dict[str, Any]) -> CommandAnswer:
    found = selectors.list_endpoints(tenant_id=options["tenant"], limit=within_limit(options["limit"], LISTED_MAX))
    return CommandAnswer(
        {"webhooks": [_listed_webhook_document(one) for one in found]},
        [_listed_webhook_line(one) for one in found] or ["There are no webhooks."],
    )


def _shown_webhook_answer(endpoint: WebhookEndpoint, *, limit: int) -> CommandAnswer:
    page = selectors.deliveries_of(endpoint, status=None, after=None, limit=limit)
    document = _listed_webhook_document(endpoint) | {"deliveries": [_delivery(one) for one in page.deliveries]}
    lines = [f"{name}: {value}" for name, value in _listed_webhook_document(endpoint).items()]
    lines += [
        f"{one.pk}  {one.message.event}  {one.status}  attempts {one.attempts}  {_last_try(one)}".rstrip()
        for one in page.deliveries
    ]
    return CommandAnswer(document, lines)


def _webhook_named_by_subject(subject: str) -> WebhookEndpoint:
    found = services.find_endpoint(subject)
    if isinstance(found, Refusal):
        raise CommandRefused(Refusal(found.reason, f"{found.detail}; see webhooks list", "subject"))
    return found


def _since_of_webhook_recovery(text: str) -> datetime:
    try:
        return TypeAdapter(AwareDatetime).validate_python(text)
    except ValidationError:
        raise CommandRefused(invalid("--since", "must be a moment with an offset: 2026-03-01T00:00:00Z")) from None


def _last_try(delivery: WebhookDelivery) -> str:
    tries = selectors.latest_tries(delivery)
    return str(tries[0]) if tries else ""


def _listed_webhook_line(endpoint: WebhookEndpoint) -> str:
    origin = registration.endpoint_origin(endpoint.url)
    return f"{endpoint.pk}  {endpoint.tenant_id}  {endpoint.status}  {origin}  {','.join(endpoint.events)}"


def _listed_webhook_document(endpoint: WebhookEndpoint) -> dict[str, Any]:
    """The URL without what follows its host, which may hold a token of its owner's."""
    return {
        "webhook_id": str(endpoint.pk),
        "tenant_id": endpoint.tenant_id,
        "url": registration.endpoint_origin(endpoint.url),
        "events": endpoint.events,
        "status": endpoint.status,
        "reason": endpoint.reason,
        "consecutive_failures": endpoint.consecutive_failures,
        "failing_since": endpoint.failing_since and endpoint.failing_since.isoformat(),
        "paused_until": endpoint.paused_until and endpoint.paused_until.isoformat(),
        "last_success_at": endpoint.last_success_at and endpoint.last_success_at.isoformat(),
    }


def _delivery(delivery: WebhookDelivery) -> dict[str, Any]:
    return {
        "delivery_id": str(delivery.pk),
        "event": delivery.message.event,
        "status": delivery.status,
        "attempts": delivery.attempts,
        "next_attempt_at": delivery.next_attempt_at and delivery.next_attempt_at.isoformat(),
    }
