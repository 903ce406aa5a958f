"""GitHub's notifications: a cheap question each minute as a hint, and a sweep every 15 minutes that misses nothing.

    hint    `GET /notifications` with the validators of the last answer. A 304 costs nothing and may be wrong: it is
            given for unread ones only, it sticks, and a person who reads a notification first takes it away. A 200
            brings all unread ones again, old ones too.
    sweep   `all=true&since=` the begin of the last whole sweep less an hour, without validators, page by page, the
            newest first; one that is longer than a look goes on where it stopped (`before`).

So neither keeps a repetition away: an event's id is its thread and `updated_at`, and what was seen decides. Nothing
marks a notification as read, so GitHub lists it for good: what is older than what was seen is remembered is dropped.
Who did it says the comment behind `latest_comment_url`, as far as it was written when the thread was moved. One whose
comment cannot be read now is no event yet: the hint keeps no validators then, and the sweep no mark, so that the next
look finds it again.

X-Poll-Interval is obeyed, as are Retry-After and the reset of a rate limit. Only classic personal access tokens read
notifications; GET /user tells them from others by X-OAuth-Scopes.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlencode

import structlog

from ops.automations.sources.asking import ANSWER_SECONDS, NOT_MODIFIED, Asker, ServiceAnswer
from ops.automations.sources.failures import AskFailed, AskFailureKind
from ops.automations.sources.looking import (
    NAME_LENGTH_MAX,
    AboutLook,
    FoundEvent,
    Looked,
    listed_objects,
    moment_of_service,
    text_of,
)

log = structlog.get_logger("dpp.automations")

BASE_URL: Final = "https://api.github.com"
ACCEPT: Final = (("x-github-api-version", "2022-11-28"),)
POLL_SECONDS: Final = 60.0
POLL_SECONDS_MAX: Final = 3_600.0
SWEEP_EVERY: Final = timedelta(minutes=15)
OVERLAP: Final = timedelta(hours=1)
PAGE: Final = 50
PAGES_OF_LOOK: Final = 4
SECONDS_FOR_A_PAGE: Final = 25.0
"""What must be left of a look's time before it begins another page, with its comments."""
OF_THE_COMMENT: Final = timedelta(minutes=2)
"""A comment moves its thread within seconds; one that is older did not."""
COMMENT_ASKED_FOR: Final = timedelta(hours=1)
"""A comment that GitHub cannot show for so long counts as none, or it would hold up every sweep for good."""
_NO_COMMENT: Final = frozenset(
    {
        *(AskFailureKind.NOT_FOUND, AskFailureKind.GONE, AskFailureKind.FORBIDDEN),
        *(AskFailureKind.QUESTION_REFUSED, AskFailureKind.GARBAGE),
    }
)
"""Asked again, GitHub would answer the same."""
_PASSES_BY: Final = frozenset({AskFailureKind.UNREACHABLE, AskFailureKind.SERVER_ERROR})


def look_at_github(asker: Asker, about: AboutLook) -> Looked:
    """Raises AskFailed; nothing is kept then, and the next look begins where this one did."""
    state = dict(about.state)
    if not state.get("login"):
        state["login"] = _own_login(asker)
    if "sweep" in state or _is_sweep_due(state, about.now):
        return _swept(asker, about, state)
    return _hinted(asker, about, state)


def github_authorization(token: str) -> Sequence[tuple[str, str]]:
    return [("authorization", f"Bearer {token}")]


def _own_login(asker: Asker) -> str:
    answer = asker.ask("/user", headers=ACCEPT)
    login = text_of(answer.json(), "login")
    if not login:
        raise AskFailed(AskFailureKind.GARBAGE, "a user without a login")
    if not answer.header("x-oauth-scopes"):
        raise AskFailed(AskFailureKind.FORBIDDEN, "not a classic token")
    return login


# The hint.


def _hinted(asker: Asker, about: AboutLook, state: dict[str, Any]) -> Looked:
    validators = [("if-none-match", state["etag"])] if state.get("etag") else []
    validators += [("if-modified-since", state["last_modified"])] if state.get("last_modified") else []
    # Always the same address, or the validators would belong to another.
    answer = asker.ask(_query(since=about.made_at), headers=[*ACCEPT, *validators])
    wait = _poll_seconds(answer)
    if answer.status == NOT_MODIFIED:
        return _finished_github_look([], state, about, wait)
    read = _unseen_github_events(asker, about, state, listed_objects(answer.json(), "notifications"))
    if text_of_link(answer.header("link"), "next"):
        # More than a page of unread ones: the sweep's business, which can be resumed.
        state.pop("swept_at", None)
    elif read.is_whole:
        state |= {"etag": answer.header("etag"), "last_modified": answer.header("last-modified")}
        state.pop("missed_since", None)
    return _finished_github_look(read.events, state, about, wait)


# The sweep.


def _is_sweep_due(state: Mapping[str, Any], now: datetime) -> bool:
    if "swept_at" not in state:
        return True
    ago = now - moment_of_service(state["swept_at"])
    return not timedelta(0) <= ago < SWEEP_EVERY  # a clock that was set back sweeps too


def _swept(asker: Asker, about: AboutLook, state: dict[str, Any]) -> Looked:
    sweep: dict[str, Any] = {"since": _since(about, state), "began": None, "before": None, "page": 1, "is_whole": True}
    sweep |= state.get("sweep") or {}
    found: list[FoundEvent] = []
    wait = POLL_SECONDS
    for _ in range(PAGES_OF_LOOK):
        asked = _query(
            since=moment_of_service(sweep["since"]), before=sweep["before"], page=sweep["page"], everything=True
        )
        answer = asker.ask(asked, headers=ACCEPT)
        wait = _poll_seconds(answer)
        sweep["began"] = sweep["began"] or _their_time(answer, about.now).isoformat()
        page = listed_objects(answer.json(), "notifications")
        read = _unseen_github_events(asker, about, state, page)
        found += read.events
        if read.is_cut:
            break  # the next look goes on with this page, from what was not read of it
        sweep["is_whole"] = sweep["is_whole"] and read.is_whole
        if not page or not text_of_link(answer.header("link"), "next"):
            state.pop("sweep", None)
            if sweep["is_whole"]:  # or the next look begins it anew, from the same cursor
                state |= {"cursor": sweep["began"], "swept_at": about.now.isoformat()}
                state.pop("missed_since", None)
            return _finished_github_look(found, state, about, wait)
        sweep |= _rest_after(page, sweep)
        if asker.until - time.monotonic() < SECONDS_FOR_A_PAGE:
            break
    return _finished_github_look(found, state | {"sweep": sweep}, about, wait)


def _since(about: AboutLook, state: Mapping[str, Any]) -> str:
    if "cursor" not in state:
        return about.oldest.isoformat()
    return max(moment_of_service(state["cursor"]) - OVERLAP, about.oldest).isoformat()


def _rest_after(page: Sequence[Mapping[str, Any]], sweep: Mapping[str, Any]) -> dict[str, Any]:
    """By time, not by number: pages move when notifications come and go. Within one second, by number all the same.

    The oldest's second is asked for again: others of it may stand on the next page.
    """
    following = min(moment_of_service(one.get("updated_at")) for one in page) + timedelta(seconds=1)
    if sweep["before"] is not None and following >= moment_of_service(sweep["before"]):
        return {"page": sweep["page"] + 1}
    return {"before": following.isoformat(), "page": 1}


def _their_time(answer: ServiceAnswer, now: datetime) -> datetime:
    """By the service's clock, which dates the notifications."""
    try:
        return parsedate_to_datetime(answer.header("date")).astimezone(UTC)
    except (ValueError, TypeError):
        return now


# What stands in an answer.


@dataclass
class _PageRead:
    """What of a page is complete. The rest stays unseen, so that a later look finds it."""

    events: list[FoundEvent] = field(default_factory=list)
    is_cut: bool = False
    """The look's time was over before the page was read."""
    is_missed: bool = False
    """A comment could not be read, and may be readable later."""

    @property
    def is_whole(self) -> bool:
        return not (self.is_cut or self.is_missed)


def _unseen_github_events(
    asker: Asker, about: AboutLook, state: dict[str, Any], page: Sequence[Mapping[str, Any]]
) -> _PageRead:
    """Of those that were not seen, the oldest first. Notes in `state` since when a comment is missing."""
    by_id: dict[str, Mapping[str, Any]] = {}
    for one in page:
        thread, updated = text_of(one, "id"), text_of(one, "updated_at")
        if not thread or len(thread) > NAME_LENGTH_MAX:
            raise AskFailed(AskFailureKind.GARBAGE, "a notification without an id")
        if moment_of_service(updated) >= about.oldest.replace(microsecond=0):
            by_id[f"{thread}:{moment_of_service(updated).isoformat()}"] = one
    unseen = about.unseen(list(by_id))
    read = _PageRead()
    for event_id, one in by_id.items():
        if event_id not in unseen:
            continue
        seconds = asker.until - time.monotonic()
        try:
            comment = _latest_comment(asker, one)
        except AskFailed as failed:
            if failed.kind not in _PASSES_BY:
                raise
            if failed.kind is AskFailureKind.UNREACHABLE and seconds < ANSWER_SECONDS:
                read.is_cut = True  # by our own haste, perhaps
                break
            if not _is_given_up(about, state, one):
                log.warning("a comment is not read yet", source=asker.caller, event_id=event_id, why=str(failed))
                state.setdefault("missed_since", about.now.isoformat())
                read.is_missed = True
                continue
            log.warning("a comment is given up", source=asker.caller, event_id=event_id, why=str(failed))
            comment = {}
        read.events.append(_github_notification_event(state, event_id, one, comment))
    read.events.sort(key=lambda event: event.occurred_at)
    return read


def _is_given_up(about: AboutLook, state: Mapping[str, Any], one: Mapping[str, Any]) -> bool:
    """Not by its age alone: after an outage all are old, and a single failure would lose each."""
    if "missed_since" not in state:
        return False
    asked_since = max(moment_of_service(state["missed_since"]), moment_of_service(one["updated_at"]))
    return about.now - asked_since >= COMMENT_ASKED_FOR


def _github_notification_event(
    state: Mapping[str, Any], event_id: str, one: Mapping[str, Any], comment: Mapping[str, Any]
) -> FoundEvent:
    at = moment_of_service(one["updated_at"])
    actor = text_of(comment, "user", "login") if _moved_by(comment, at) else ""
    subject = {name: text_of(one, "subject", name) for name in ("title", "type", "url", "latest_comment_url")}
    repository = {name: text_of(one, "repository", name) for name in ("full_name", "html_url")}
    payload = {
        "type": "notification",
        "thread_id": one["id"],
        "reason": text_of(one, "reason"),
        "updated_at": at.isoformat(),
        "unread": one.get("unread") is True,
        "subject": subject,
        "repository": repository,
        "actor": actor,
        "comment": {name: text_of(comment, name) for name in ("body", "html_url", "created_at")},
    }
    own = bool(actor) and actor.lower() == str(state["login"]).lower()
    return FoundEvent(
        event_id=event_id, payload=payload, thread=text_of(one, "id"), actor=actor, occurred_at=at, is_own=own
    )


def _latest_comment(asker: Asker, one: Mapping[str, Any]) -> Mapping[str, Any]:
    """The comment, or the issue where it has none. Empty where there is none to be read: it was deleted, or never was.

    Raises AskFailed.
    """
    url = text_of(one, "subject", "latest_comment_url") or text_of(one, "subject", "url")
    if not url:
        return {}
    try:
        read = asker.ask(url, headers=ACCEPT).json()
    except AskFailed as failed:
        if failed.kind in _NO_COMMENT:
            return {}
        raise
    return read if isinstance(read, Mapping) else {}


def _moved_by(comment: Mapping[str, Any], at: datetime) -> bool:
    """Whether it is what moved the thread: an assignment may have, long after our own comment."""
    try:
        written = max(moment_of_service(comment[name]) for name in ("created_at", "updated_at") if comment.get(name))
    except (AskFailed, ValueError):
        return False
    return abs(at - written) <= OF_THE_COMMENT


def _query(*, since: datetime, before: str | None = None, page: int = 1, everything: bool = False) -> str:
    # GitHub knows whole seconds and answers what came after this one.
    asked = {"per_page": str(PAGE), "since": _zulu(since - timedelta(seconds=1))}
    asked |= {"all": "true"} if everything else {}
    asked |= {"before": _zulu(moment_of_service(before))} if before else {}
    asked |= {"page": str(page)} if page > 1 else {}
    return "/notifications?" + urlencode(asked)


def _zulu(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def text_of_link(header: str, rel: str) -> str:
    """The address of this relation in a Link header."""
    for part in header.split(","):
        address, _, rest = part.strip().partition(">")
        if f'rel="{rel}"' in rest and address.startswith("<"):
            return address[1:]
    return ""


def _poll_seconds(answer: ServiceAnswer) -> float:
    said = answer.header("x-poll-interval")
    seconds = float(said[:6]) if said.isascii() and said.isdigit() else POLL_SECONDS
    return min(max(seconds, POLL_SECONDS), POLL_SECONDS_MAX)


def _finished_github_look(
    found: Sequence[FoundEvent], state: Mapping[str, Any], about: AboutLook, wait: float
) -> Looked:
    return Looked(events=found, state=state, next_look_seconds=wait, not_before=about.now + timedelta(seconds=wait))
