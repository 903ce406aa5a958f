"""One look at one source, from its lease to its marks.

    ask_source  outside any transaction, without a database connection: what is new?
    keep_look   events, seen rows and the marks of how far it was read: one transaction

A death before `keep_look` leaves the marks where they were: the next look, after the lease, finds the same again. One
after it has kept all. Two at once (a lease ran out under a slow look) keep each event once, and the marks of the one
whose lease it is. What cannot be asked is noted at the source with its time, and asked again later and later, up to a
quarter of an hour: no other source waits for it.
"""

import random
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from datetime import time as time_of_day
from typing import Any, Final
from zoneinfo import ZoneInfo

import structlog
from django.db import connections, transaction

from dpp_project import clock, retention
from dpp_project.refusals import Refusal
from dpp_project.stores.postgres import DATABASE_AWAY, database_now
from ops.automations import metrics, transitions
from ops.automations.emitting import Emission, emit_event
from ops.automations.models import AutomationEvent, AutomationSource, SeenEvent
from ops.automations.notify import telling
from ops.automations.reach import Outside
from ops.automations.sources import credentials, daily, failures, github, jira, source_marks
from ops.automations.sources.asking import Asker
from ops.automations.sources.failures import AskFailed, AskFailureKind
from ops.automations.sources.looking import AboutLook, FoundEvent, Looked
from ops.automations.sources.source_marks import SourceLook
from ops.automations.states import EventOutcome, MessageKind, SourceKind

log = structlog.get_logger("dpp.automations")

LOOK_SECONDS: Final = 60.0
"""Half a lease."""
BACKOFF_FIRST_SECONDS: Final = 60.0
BACKOFF_MAX_SECONDS: Final = 900.0
JITTER: Final = 0.1
FAILURES_TOLD: Final = 5
"""In a row: a quarter of an hour or more. A service that hiccups is no alarm."""
SCHEDULE_SECONDS_MAX: Final = 300.0
"""A clock that is set, or a time that is changed, is noticed so soon."""
KINDS: Final = (SourceKind.GITHUB, SourceKind.JIRA, SourceKind.SCHEDULE)
OWN_DOING: Final = "our own doing"
SEEN: Final = "seen_events"
FORGOTTEN_SOON: Final = timedelta(hours=1)
"""A service's clock may be ahead of ours, and the cleanup may come while a look goes on."""


def look_at(look: SourceLook, outside: Outside) -> None:
    """Raises nothing: what goes wrong is this look's alone."""
    source = look.source
    try:
        keep_look(look, ask_source(source, outside))
    except AskFailed as failed:
        _note_failed_source_look(look, failed.kind, failed.detail, retry_after_seconds=failed.retry_after_seconds)
    except credentials.NoCredentials as missing:
        _note_failed_source_look(look, AskFailureKind.CREDENTIALS_MISSING, str(missing))
    except DATABASE_AWAY as error:
        log.warning("Postgres is away, a look is given up", source=source.name, exc_info=error)
    except Exception as error:  # one source's fault holds up no other
        log.exception("a look failed", source=source.name, exc_info=error)
        _note_failed_source_look(look, AskFailureKind.FAULT, type(error).__name__)
    finally:
        connections.close_all()


def ask_source(source: AutomationSource, outside: Outside) -> Looked:
    """Raises AskFailed and NoCredentials."""
    now = database_now()
    about = AboutLook(
        settings=source.settings,
        state=source.state | {"etag": source.etag} | ({"cursor": source.cursor} if source.cursor else {}),
        made_at=source.created_at,
        oldest=max(source.created_at, _remembered_since(now)),
        now=now,
        unseen=lambda ids: _unseen(source, ids),
    )
    if source.kind == SourceKind.SCHEDULE:
        return _scheduled(about)
    known = credentials.credentials_of(source)
    if not known.token:
        raise credentials.NoCredentials("it has no token")
    connections.close_all()  # back to the pool: what is asked outside may take its time
    base_url, headers = _address(source, known.token)
    asker = Asker(outside, base_url, headers, caller=source.name, until=time.monotonic() + LOOK_SECONDS)
    return github.look_at_github(asker, about) if source.kind == SourceKind.GITHUB else jira.look_at_jira(asker, about)


def _address(source: AutomationSource, token: str) -> tuple[str, Sequence[tuple[str, str]]]:
    base_url = source.settings.get("base_url") or github.BASE_URL
    if source.kind == SourceKind.GITHUB:
        return base_url, github.github_authorization(token)
    return base_url, jira.jira_authorization(source.settings["email"], token)


def _scheduled(about: AboutLook) -> Looked:
    """What is due since the schedule stands, under its date: the same date again is a repetition."""
    at, zone = time_of_day.fromisoformat(about.settings["at"]), ZoneInfo(about.settings["zone"])
    due = daily.latest_daily_due(about.now, at=at, zone=zone)
    since = datetime.fromisoformat(about.state.get("since") or about.made_at.isoformat())
    found = []
    if due.at >= max(since, about.oldest):
        payload = {"type": "schedule", "date": due.date.isoformat(), "due_at": due.at.isoformat()}
        found.append(
            FoundEvent(
                event_id=due.date.isoformat(),
                payload=payload,
                thread=due.date.isoformat(),
                actor="",
                occurred_at=due.at,
            )
        )
    left = (daily.following_daily_due(about.now, at=at, zone=zone).at - about.now).total_seconds()
    return Looked(events=found, state=about.state, next_look_seconds=min(max(left, 0.0), SCHEDULE_SECONDS_MAX))


def _remembered_since(now: datetime) -> datetime:
    """What happened before may have been seen, and be forgotten: where it is listed still, it would be bought again."""
    return retention.retention_cutoff(SEEN, now=now) + FORGOTTEN_SOON


def _unseen(source: AutomationSource, ids: Sequence[str]) -> set[str]:
    """A hint, which spares the questions about each: `emit` decides."""
    try:
        seen = SeenEvent.objects.filter(source=source, event_id__in=ids).values_list("event_id", flat=True)
        return set(ids) - set(seen)
    finally:
        connections.close_all()


def keep_look(look: SourceLook, looked: Looked) -> None:
    state = dict(looked.state)
    marks: dict[str, Any] = {"etag": str(state.pop("etag", "")), "cursor": str(state.pop("cursor", ""))}
    if looked.not_before is not None:
        state["not_before"] = looked.not_before.isoformat()
    counted = dict.fromkeys(("new", "seen", "own"), 0)
    with transaction.atomic():
        for event in looked.events:
            counted[_kept(look.source, event)] += 1
        marked = source_marks.mark_source_looked(look, next_in_seconds=looked.next_look_seconds, state=state, **marks)
    metrics.LOOKS.labels(look.source.kind, "well").inc()
    for what, count in counted.items():
        metrics.FOUND.labels(look.source.kind, what).inc(count)
    if counted["new"] or marked is transitions.CasOutcome.LOST:
        log.info("source looked at", source=look.source.name, marked=marked.value, **counted)


def _kept(source: AutomationSource, event: FoundEvent) -> str:
    """In the transaction of the marks."""
    emitted = _emitted(source, event, event.payload)
    if isinstance(emitted, Refusal):
        # Too large to be kept whole: what names it is kept, so that it is not asked for again at each look.
        log.warning("an event is cut", source=source.name, event_id=event.event_id, why=emitted.detail)
        emitted = _emitted(source, event, _event_payload_cut_short(event.payload))
    if isinstance(emitted, Refusal) or emitted.emission is Emission.DUPLICATE or emitted.event_pk is None:
        return "seen"
    if not event.is_own:
        return "new"
    version = AutomationEvent.objects.values_list("version", flat=True).get(pk=emitted.event_pk)
    transitions.complete_event(
        event_pk=emitted.event_pk, version=version, outcome=EventOutcome.OWN_ACTOR, reason=OWN_DOING
    )
    return "own"


def _emitted(source: AutomationSource, event: FoundEvent, payload: Mapping[str, Any]) -> Any:
    return emit_event(
        source=source,
        event_id=event.event_id,
        payload=payload,
        occurred_at=event.occurred_at,
        thread=event.thread,
        actor=event.actor if event.actor.isprintable() else "",
    )


def _event_payload_cut_short(payload: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in payload.items() if not isinstance(value, dict | list)}
    return plain | {"is_cut": True}


def _note_failed_source_look(
    look: SourceLook, kind: AskFailureKind, detail: str, *, retry_after_seconds: float = 0.0
) -> None:
    step = min(BACKOFF_FIRST_SECONDS * 2 ** min(look.source.failures, 16), BACKOFF_MAX_SECONDS)
    step *= 1 - JITTER + 2 * JITTER * random.random()  # noqa: S311  it only spreads the looks
    if "not_before" in look.source.state:
        retry_after_seconds = max(retry_after_seconds, _seconds_until(look.source.state["not_before"]))
    error = f"{kind.value} {detail}".strip()
    metrics.LOOKS.labels(look.source.kind, kind.value.lower()).inc()
    log.warning("source not looked at", source=look.source.name, error=error, failures=look.source.failures + 1)
    try:
        with transaction.atomic():  # this failure is the fifth once: a death between the two must undo it
            marked = source_marks.mark_look_failed(look, next_in_seconds=max(step, retry_after_seconds), error=error)
            if marked is transitions.CasOutcome.WON and look.source.failures + 1 == FAILURES_TOLD:
                _tell_of_failing_source(look.source)
    except DATABASE_AWAY as away:
        log.warning("Postgres is away, a failed look is not noted", source=look.source.name, exc_info=away)


def _tell_of_failing_source(source: AutomationSource) -> None:
    """Once for each time that it fails: at the platform's place for alarms, beside log, metric and console."""
    failing = AutomationSource.objects.get(pk=source.pk)
    since = failing.looked_at or failing.created_at
    telling.tell_platform(
        body=f"The source {failing.name} fails: {failures.source_failure_told(failing)}",
        kind=MessageKind.ALARM,
        key=f"source-failing:{failing.pk}:{since.isoformat()}",
    )


def _seconds_until(text: str) -> float:
    return (datetime.fromisoformat(text) - clock.now()).total_seconds()
