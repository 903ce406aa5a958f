"""Jira's issues by search: what was updated since the last look, and a quarter of an hour before it.

The search runs on an index that lags behind the issues, so an issue may turn up minutes after later ones did: each look
asks again for 15 minutes more than have passed, and the ledger of seen ids (`id:updated`) drops what comes again. The
time is asked for as `-Nm`: a bare date in JQL is read in the time zone of the token's account. The oldest come first.

`/rest/api/3/search/jql` answers ids alone unless fields are named, and pages by nextPageToken; the old `/search`
answers 410. A search that is longer than a look is resumed by its token, which lives a week.
"""

import base64
import math
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from ops.automations.sources.asking import Asker
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

SEARCH: Final = "/rest/api/3/search/jql"
POLL_SECONDS: Final = 60.0
LAG_MINUTES: Final = 15
PAGE: Final = 50
PAGES_OF_LOOK: Final = 4
SECONDS_FOR_A_PAGE: Final = 22.0
FIELDS: Final = (
    *("summary", "status", "issuetype", "priority", "project", "labels", "assignee", "reporter", "creator"),
    *("created", "updated", "comment"),
)
_PEOPLE: Final = ("assignee", "reporter", "creator")
_NAMED: Final = ("status", "issuetype", "priority")
OF_THE_COMMENT: Final = timedelta(minutes=1)


def look_at_jira(asker: Asker, about: AboutLook) -> Looked:
    """Raises AskFailed; nothing is kept then, and the next look begins where this one did."""
    state = dict(about.state)
    if not state.get("account_id"):
        state["account_id"] = _own_account(asker)
    search = dict(state.get("search") or _new_search(about, state))
    found: list[FoundEvent] = []
    for _ in range(PAGES_OF_LOOK):
        try:
            page = _jira_issue_page(asker, about, search)
        except AskFailed as failed:
            if failed.kind is AskFailureKind.QUESTION_REFUSED and search["token"]:
                # The token has ended: the search begins anew at the next look, from the same cursor.
                state.pop("search", None)
                return Looked(events=found, state=state, next_look_seconds=POLL_SECONDS)
            raise
        found += _unseen_jira_events(about, state, listed_objects(page.get("issues"), "issues"))
        search["token"] = text_of(page, "nextPageToken")
        if not search["token"]:
            state["cursor"] = search["began"]
            state.pop("search", None)
            return Looked(events=found, state=state, next_look_seconds=POLL_SECONDS)
        if asker.until - time.monotonic() < SECONDS_FOR_A_PAGE:
            break
    return Looked(events=found, state=state | {"search": search}, next_look_seconds=1.0)


def jira_authorization(email: str, token: str) -> Sequence[tuple[str, str]]:
    return [("authorization", "Basic " + base64.b64encode(f"{email}:{token}".encode()).decode())]


def _own_account(asker: Asker) -> str:
    account = text_of(asker.ask("/rest/api/3/myself").json(), "accountId")
    if not account:
        raise AskFailed(AskFailureKind.GARBAGE, "an account without an id")
    return account


def _new_search(about: AboutLook, state: Mapping[str, Any]) -> dict[str, Any]:
    since = max(moment_of_service(state["cursor"]), about.oldest) if "cursor" in state else about.oldest
    return {"began": about.now.isoformat(), "jql": jira_query(about.settings, since, about.now), "token": ""}


def jira_query(settings: Mapping[str, Any], since: datetime, now: datetime) -> str:
    """Relative, so that no account's time zone matters. A clock that was set back asks for the lag alone."""
    minutes = math.ceil(max((now - since).total_seconds(), 0.0) / 60) + LAG_MINUTES
    wanted = str(settings.get("jql", "")).strip()
    bound = f"updated >= -{minutes}m"
    return (f"({wanted}) AND {bound}" if wanted else bound) + " ORDER BY updated ASC"


def _jira_issue_page(asker: Asker, about: AboutLook, search: Mapping[str, Any]) -> Mapping[str, Any]:
    fields = about.settings.get("fields") or FIELDS
    asked = {"jql": search["jql"], "maxResults": PAGE, "fields": sorted({*fields, "updated", "comment"})}
    asked |= {"nextPageToken": search["token"]} if search["token"] else {}
    page = asker.ask(SEARCH, method="POST", body=asked).json()
    if not isinstance(page, Mapping):
        raise AskFailed(AskFailureKind.GARBAGE, "no page of issues")
    return page


def _unseen_jira_events(
    about: AboutLook, state: Mapping[str, Any], issues: Sequence[Mapping[str, Any]]
) -> list[FoundEvent]:
    by_id: dict[str, Mapping[str, Any]] = {}
    for one in issues:
        issue, updated = text_of(one, "id"), moment_of_service(text_of(one, "fields", "updated"))
        if not issue or len(issue) > NAME_LENGTH_MAX:
            raise AskFailed(AskFailureKind.GARBAGE, "an issue without an id")
        if updated >= about.oldest:
            by_id[f"{issue}:{updated.isoformat()}"] = one
    unseen = about.unseen(list(by_id))
    return [_jira_issue_event(state, event_id, one) for event_id, one in by_id.items() if event_id in unseen]


def _jira_issue_event(state: Mapping[str, Any], event_id: str, one: Mapping[str, Any]) -> FoundEvent:
    fields: Mapping[str, Any] = one["fields"]
    at = moment_of_service(fields["updated"])
    comment = _latest_comment(fields)
    written = text_of(comment, "updated") or text_of(comment, "created")
    is_its = bool(written) and abs(moment_of_service(written) - at) <= OF_THE_COMMENT
    actor = text_of(comment, "author", "accountId") if is_its else ""
    payload = {
        "type": "issue",
        "id": text_of(one, "id"),
        "key": text_of(one, "key"),
        "updated_at": at.isoformat(),
        "actor": actor,
        "comment": _shown_comment(comment) if is_its else None,
        "fields": {name: _shown_jira_field(name, value) for name, value in fields.items() if name != "comment"},
    }
    return FoundEvent(
        event_id=event_id,
        payload=payload,
        thread=text_of(one, "key") or text_of(one, "id"),
        actor=actor,
        occurred_at=at,
        is_own=bool(actor) and actor == state["account_id"],
    )


def _latest_comment(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    held = fields.get("comment")
    comments = held.get("comments") if isinstance(held, Mapping) else None
    some = [one for one in comments if isinstance(one, Mapping)] if isinstance(comments, list) else []
    return max(some, key=lambda one: text_of(one, "updated") or text_of(one, "created"), default={})


def _shown_comment(comment: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": text_of(comment, "id"),
        "author": text_of(comment, "author", "displayName"),
        "body": comment.get("body"),
    }


def _shown_jira_field(name: str, value: object) -> object:
    """People and things by their names: the rest of them is addresses and pictures."""
    if name in _PEOPLE and isinstance(value, Mapping):
        return {"account_id": text_of(value, "accountId"), "name": text_of(value, "displayName")}
    if name in _NAMED and isinstance(value, Mapping):
        return text_of(value, "name")
    if name == "project" and isinstance(value, Mapping):
        return {"key": text_of(value, "key"), "name": text_of(value, "name")}
    return value
