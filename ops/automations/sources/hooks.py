"""A signed request comes in: proven, read, and made an event, or an answer to a message.

Every wrong reason (no such source, another kind, no signature, a wrong or an old one) is one answer, and costs the same
work: a stranger learns no source's name. What was proven and came before is answered as it was the first time, and
buys nothing: GitHub's by the body's hash, the others by the id that their signature covers. The seen row that says so
lives for 30 days; Standard Webhooks and Slack sign the time too, and are refused after five minutes.

    GitHub, Standard Webhooks    an event of the source; a Standard Webhook of the type `answer` is an answer
    Slack                        a message in a thread where an answer is awaited is that answer; what else people
                                 write is an event, where the source has a rule
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog

from dpp_project import clock
from dpp_project.http.parsers import parse_json
from dpp_project.refusals import Refusal
from ops.automations import metrics
from ops.automations.answering import AnswerOutcome, record_message_answer
from ops.automations.emitting import Emission, Emitted, emit_event, is_duplicate, storable_json
from ops.automations.models import AutomationRule, AutomationSource
from ops.automations.notify import targets
from ops.automations.notify.messaging import SAID
from ops.automations.sources import credentials, settings_of, signatures
from ops.automations.sources.looking import NAME_LENGTH_MAX, text_of
from ops.automations.sources.signatures import HookHeaders, Signed
from ops.automations.states import MessageChannel, SourceKind

log = structlog.get_logger("dpp.automations")

GITHUB: Final = "github"
STANDARD: Final = "standard"
FORMS: Final = (GITHUB, STANDARD)
ANSWER: Final = "answer"
_NOBODYS: Final = credentials.new_signing_secret()
"""Stands in for the secret of a source that is not there: its signature is computed all the same."""


class HookOutcome(enum.Enum):
    UNPROVEN = "unproven"
    PAUSED = "paused"
    NEW = "new"
    SEEN = "seen"
    ANSWERED = "answered"
    NOT_AWAITED = "not_awaited"
    UNDER_WAY = "under_way"
    IGNORED = "ignored"
    CHALLENGED = "challenged"
    TOO_LARGE = "too_large"


@dataclass(frozen=True, slots=True)
class HookAnswer:
    outcome: HookOutcome
    challenge: str = ""


def receive_hook(*, name: str, headers: HookHeaders, body: bytes) -> HookAnswer:
    """Raises a Problem for a body that was proven and is no strict JSON. `headers`: names in lower case."""
    taken = _answer_to_hook(name, headers, body)
    metrics.HOOKS.labels(taken.outcome.value).inc()
    return taken


def _answer_to_hook(name: str, headers: HookHeaders, body: bytes) -> HookAnswer:
    kinds = (SourceKind.HOOK, SourceKind.SLACK)
    is_name = settings_of.NAME.fullmatch(name) is not None
    source = AutomationSource.objects.filter(name=name, kind__in=kinds).first() if is_name else None
    signed = _proven(source, headers, body)
    if source is None or signed is None:
        return HookAnswer(HookOutcome.UNPROVEN)
    said = storable_json(parse_json(body, refuses_unstorable=False))
    if source.kind == SourceKind.SLACK:
        return _of_slack(source, said)
    if not source.enabled:
        return HookAnswer(HookOutcome.PAUSED)
    event_id = signed.event_id or ""
    if source.settings["form"] == STANDARD and isinstance(said, Mapping):
        if said.get("type") == SAID:  # our own words, signed with the secret that signs both ways: sent back, they loop
            return HookAnswer(HookOutcome.IGNORED)
        if said.get("type") == ANSWER:
            return _record_webhook_answer(source, event_id, said)
    return _emit_hook_event(source, headers, event_id, said)


def _proven(source: AutomationSource | None, headers: HookHeaders, body: bytes) -> Signed | None:
    """Where there is no secret, with one that no sender knows."""
    live: list[str] = []
    if source is not None:
        try:
            live = credentials.credentials_of(source).live(clock.now())
        except credentials.NoCredentials as missing:
            log.error("a hook cannot be proven", source=source.name, why=str(missing))  # noqa: TRY400
    try:
        proven = _verify_for(source)(headers, body, live or [_NOBODYS], clock.now())
    except ValueError:  # a secret that an operator wrote, and that is none of Standard Webhooks
        log.exception("a hook's secret cannot verify", source=None if source is None else source.name)
        return None
    return proven if live else None


def _verify_for(source: AutomationSource | None) -> signatures.Verify:
    if source is not None and source.kind == SourceKind.SLACK:
        return signatures.slack_signature
    is_standard = source is not None and source.settings.get("form") == STANDARD
    return signatures.standard_signature if is_standard else signatures.github_signature


# Events.


def _emit_hook_event(source: AutomationSource, headers: HookHeaders, event_id: str, said: Any) -> HookAnswer:
    payload = {"type": "hook", "body": said}
    if source.settings["form"] == GITHUB:
        # Outside the signature: it says what the sender calls it, and proves nothing.
        payload["event"] = _printable_hook_text(headers.get("x-github-event", ""))
    emitted = emit_event(
        source=source,
        event_id=event_id,
        payload=payload,
        occurred_at=clock.now(),
        thread=_thread_of(said),
        actor=_printable_hook_text(text_of(said, "sender", "login")),
    )
    return _hook_emission_answer(source, emitted)


def _thread_of(said: Any) -> str:
    """What a body of GitHub's is about: `acme/shop#12`."""
    for name in ("issue", "pull_request", "discussion"):
        about = said.get(name) if isinstance(said, Mapping) else None
        number = about.get("number") if isinstance(about, Mapping) else None
        if isinstance(number, int):
            return _printable_hook_text(f"{text_of(said, 'repository', 'full_name')}#{number}")
    return ""


def _hook_emission_answer(source: AutomationSource, emitted: Emitted | Refusal) -> HookAnswer:
    if isinstance(emitted, Refusal):
        log.warning("an event of a hook is refused", source=source.name, field=emitted.field, why=emitted.detail)
        return HookAnswer(HookOutcome.TOO_LARGE)
    is_new = emitted.emission is Emission.NEW
    metrics.FOUND.labels(source.kind, "new" if is_new else "seen").inc()
    return HookAnswer(HookOutcome.NEW if is_new else HookOutcome.SEEN)


# Answers.


def _record_webhook_answer(source: AutomationSource, event_id: str, said: Mapping[str, Any]) -> HookAnswer:
    data = said.get("data")
    return _offer_hook_answer_to_targets(
        source,
        event_id=event_id,
        channel=MessageChannel.WEBHOOK,
        named=(source.name,),
        thread=text_of(data, "thread"),
        text=text_of(data, "text"),
        actor=text_of(data, "actor"),
    )


def _of_slack(source: AutomationSource, said: Any) -> HookAnswer:
    if text_of(said, "type") == "url_verification":
        return HookAnswer(HookOutcome.CHALLENGED, text_of(said, "challenge"))
    if not source.enabled:
        return HookAnswer(HookOutcome.PAUSED)
    event_id, event = text_of(said, "event_id"), said.get("event") if isinstance(said, Mapping) else None
    if not event_id or not isinstance(event, Mapping) or _is_no_person(event):
        return HookAnswer(HookOutcome.IGNORED)
    channel_id, thread = text_of(event, "channel"), text_of(event, "thread_ts")
    if thread and thread != text_of(event, "ts"):
        taken = _offer_hook_answer_to_targets(
            source,
            event_id=event_id,
            channel=MessageChannel.SLACK,
            named=targets.written_as(source, channel_id),
            thread=thread,
            text=text_of(event, "text"),
            actor=text_of(event, "user"),
        )
        if taken.outcome is not HookOutcome.NOT_AWAITED:
            return taken
    if not AutomationRule.objects.filter(source=source, enabled=True, ended_at__isnull=True).exists():
        return HookAnswer(HookOutcome.IGNORED)
    return _hook_emission_answer(
        source,
        emit_event(
            source=source,
            event_id=event_id,
            payload={"type": "slack", "event": dict(event)},
            occurred_at=clock.now(),
            thread=_printable_hook_text(f"{channel_id}:{thread or text_of(event, 'ts')}"),
            actor=_printable_hook_text(text_of(event, "user")),
        ),
    )


def _is_no_person(event: Mapping[str, Any]) -> bool:
    """Our own messages come back as events too, as do those of other bots; an edit and a deletion are `subtype`s."""
    is_words = event.get("type") in {"message", "app_mention"} and not event.get("subtype")
    return not is_words or bool(event.get("bot_id")) or not event.get("user")


def _offer_hook_answer_to_targets(
    source: AutomationSource,
    *,
    event_id: str,
    channel: MessageChannel,
    named: tuple[str, ...],
    thread: str,
    text: str,
    actor: str,
) -> HookAnswer:
    if is_duplicate(source=source, event_id=event_id):
        return HookAnswer(HookOutcome.SEEN)  # the one that was taken waits no more
    left = HookOutcome.NOT_AWAITED
    for target in named:
        came = record_message_answer(
            source=source,
            event_id=event_id,
            channel=channel,
            target=target,
            thread=thread,
            text=text,
            actor=_printable_hook_text(actor),
            occurred_at=clock.now(),
        )
        if isinstance(came, Refusal):
            log.warning("an answer is refused", source=source.name, field=came.field, why=came.detail)
            return HookAnswer(HookOutcome.TOO_LARGE)
        if came.outcome is AnswerOutcome.TAKEN:
            return HookAnswer(HookOutcome.ANSWERED)
        if came.outcome is AnswerOutcome.DUPLICATE:
            return HookAnswer(HookOutcome.SEEN)
        if came.outcome is AnswerOutcome.UNDER_WAY:
            left = HookOutcome.UNDER_WAY
    return HookAnswer(left)


def _printable_hook_text(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text[:NAME_LENGTH_MAX])
