"""One message to Slack, which has no key that would make a repetition harmless.

    post      chat.postMessage, with our id in the message's metadata. Only a 429 and the refusals that Slack names are
              certain; a timeout, a broken answer, a 5xx or an error of Slack's own may have posted it.
    look up   what may have been posted is searched for by that id, in its thread and at the channel's root, before it
              is posted again. Where it cannot be searched for (a missing scope), it is not posted again at all.

A reply to a thread that was deleted is not refused: Slack posts it at the channel's root, and the answer's thread_ts is
missing. So it is taken back, and told.
"""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

from dpp_project import clock
from dpp_project.outbound.exchanging import OutboundAnswer, OutboundRequest
from dpp_project.outbound.refusals import Blocked, Failure, Refused
from ops.automations.messages.outcomes import Arrived, NotSent, RefusedForGood, SendOutcome, ThreadGone, Unclear
from ops.automations.models import AutomationMessage
from ops.automations.reach import Outside
from tenants.webhooks.dispatch.schedule import retry_after_seconds

BASE_URL: Final = "https://slack.com"
EVENT_TYPE: Final = "dpp_message"
ANSWER_SECONDS: Final = 15.0
ANSWER_BYTES_MAX: Final = 4_194_304
TEXT_LENGTH_MAX: Final = 39_000
"""Slack cuts at 40,000."""
LOOKED_BACK_SECONDS: Final = 120
"""Slack's clock, which dates the messages, and ours may differ."""
PAGE: Final = 100
PAGES_MAX: Final = 10
RATE_LIMIT_WAIT_SECONDS: Final = 30.0
ENDS: Final = frozenset(
    {"channel_not_found", "msg_too_long", "no_text", "invalid_metadata_format", "metadata_too_large"}
)
"""No repetition would change these."""
REFUSALS: Final = frozenset(
    {
        "not_in_channel",
        "is_archived",
        "invalid_auth",
        "not_authed",
        "account_inactive",
        "token_revoked",
        "token_expired",
    }
    | {"missing_scope", "no_permission", "org_login_required", "ekm_access_denied", "team_access_not_granted"}
    | {"restricted_action", "restricted_action_read_only_channel", "restricted_action_thread_only_channel"}
    | {"restricted_action_non_threadable_channel", "access_denied", "not_allowed_token_type", "invalid_arguments"}
    | {"messages_tab_disabled", "cannot_reply_to_message", "two_factor_setup_required", "accesslimited"}
)
"""Certain, and curable by a person within the message's day."""
_BEFORE_IT_WAS_SENT: Final = frozenset({*Blocked, Failure.DNS_ERROR, Failure.CONNECT_ERROR, Failure.INVALID_URL})


@dataclass(frozen=True)
class SlackPlace:
    """A channel, as a source reaches it."""

    outside: Outside
    base_url: str
    token: str = field(repr=False)
    channel_id: str
    caller: str
    until: float
    """By time.monotonic(), before the message's lease ends: the sender that takes it over must find what was posted."""

    @property
    def seconds_left(self) -> float:
        return self.until - time.monotonic()


class _NotKnown(Exception):  # noqa: N818  an outcome
    """Slack did not say whether the message is there."""


def post_to_slack(place: SlackPlace, message: AutomationMessage, *, thread: str) -> SendOutcome:
    said: dict[str, Any] = {
        "channel": place.channel_id,
        "text": escaped_for_slack(message.body),
        "metadata": {
            "event_type": EVENT_TYPE,
            "event_payload": {"message_id": str(message.pk), "number": message.number},
        },
        "unfurl_links": False,
        "unfurl_media": False,
    }
    if thread:
        said["thread_ts"] = thread
    if place.seconds_left < ANSWER_SECONDS:
        return NotSent("no time left")  # by a slow lookup, or a process that was frozen
    try:
        answer = _slack_api_answer(place, "chat.postMessage", said)
    except Refused as refused:
        certain = refused.reason in _BEFORE_IT_WAS_SENT
        return NotSent(refused.reason.value) if certain else Unclear(refused.reason.value)
    return _came_of(place, answer, thread)


def _came_of(place: SlackPlace, answer: OutboundAnswer, thread: str) -> SendOutcome:
    status = answer.head.status
    if status == 429:
        asked = retry_after_seconds(answer.head.first("retry-after"), now=clock.now())
        return NotSent("429", after_seconds=asked or RATE_LIMIT_WAIT_SECONDS, pauses_source=True)
    if status != 200:
        return Unclear(str(status)) if status >= 500 else NotSent(str(status))
    return _slack_send_outcome(place, answer, thread)


def _slack_send_outcome(place: SlackPlace, answer: OutboundAnswer, thread: str) -> SendOutcome:
    said = _slack_answer_document(answer)
    if said is None:
        return Unclear("an answer that is not Slack's")
    if said.get("ok") is not True:
        return _slack_error_outcome(str(said.get("error", "")))
    ts, posted = said.get("ts"), said.get("message")
    if not isinstance(ts, str) or not isinstance(posted, Mapping):
        return Unclear("an answer without the message")
    return _stands(place, ts, posted, thread)


def _slack_error_outcome(error: str) -> SendOutcome:
    if error in ENDS:
        return RefusedForGood(error)
    if error in REFUSALS:
        return NotSent(error)
    if error in {"ratelimited", "rate_limited", "message_limit_exceeded"}:
        return NotSent(error, after_seconds=RATE_LIMIT_WAIT_SECONDS, pauses_source=True)
    return Unclear(error[:100] or "no error named")


def _stands(place: SlackPlace, ts: str, posted: Mapping[str, Any], thread: str) -> SendOutcome:
    if not thread or posted.get("thread_ts") == thread:
        return Arrived(ts, thread or ts)
    return ThreadGone("" if _taken_back(place, ts) else ts)


def _taken_back(place: SlackPlace, ts: str) -> bool:
    try:
        said = _slack_answer_document(_slack_api_answer(place, "chat.delete", {"channel": place.channel_id, "ts": ts}))
    except Refused:
        return False
    return said is not None and (said.get("ok") is True or said.get("error") == "message_not_found")


def look_up(place: SlackPlace, message: AutomationMessage, *, thread: str) -> SendOutcome | None:
    """What became of a post of which nothing is known; None: it is not there, and may be posted."""
    since = str(int(message.created_at.timestamp()) - LOOKED_BACK_SECONDS)
    try:
        found = (
            _posted_slack_message(place, "conversations.replies", {"ts": thread, "oldest": since}, message)
            if thread
            else None
        )
        found = found or _posted_slack_message(place, "conversations.history", {"oldest": since}, message)
    except _NotKnown as unknown:
        return Unclear(f"not looked up: {unknown}")
    if found is None:
        return None
    # One that was written without a thread began one, whatever thread its task has got since.
    ts, stands_in = str(found.get("ts", "")), str(found.get("thread_ts") or "")
    return Arrived(ts, stands_in) if stands_in and not message.thread else _stands(place, ts, found, message.thread)


def _posted_slack_message(
    place: SlackPlace, method: str, asked: Mapping[str, str], message: AutomationMessage
) -> Mapping[str, Any] | None:
    for posted in _pages(place, method, asked):
        metadata = posted.get("metadata")
        payload = metadata.get("event_payload") if isinstance(metadata, Mapping) else None
        if isinstance(payload, Mapping) and payload.get("message_id") == str(message.pk):
            return posted
    return None


def _pages(place: SlackPlace, method: str, asked: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
    query = {"channel": place.channel_id, "include_all_metadata": "true", "limit": str(PAGE), **asked}
    for _ in range(PAGES_MAX):
        said = _slack_page_of_messages(place, f"{method}?{urlencode(query)}")
        if said.get("error") == "thread_not_found":
            return
        if said.get("ok") is not True:
            raise _NotKnown(str(said.get("error", ""))[:100])
        messages = said.get("messages")
        yield from (one for one in messages if isinstance(one, Mapping)) if isinstance(messages, list) else ()
        following = said.get("response_metadata")
        cursor = following.get("next_cursor") if isinstance(following, Mapping) else ""
        if not cursor:
            return
        query["cursor"] = str(cursor)
    raise _NotKnown("too many messages since")


def _slack_page_of_messages(place: SlackPlace, method: str) -> Mapping[str, Any]:
    try:
        answer = _slack_api_answer(place, method, None)
    except Refused as refused:
        raise _NotKnown(refused.reason.value) from None
    said = _slack_answer_document(answer)
    if answer.head.status != 200 or said is None:
        raise _NotKnown(str(answer.head.status))
    return said


def _slack_api_answer(place: SlackPlace, method: str, said: Mapping[str, Any] | None) -> OutboundAnswer:
    body = b"" if said is None else json.dumps(said, ensure_ascii=False).encode()
    kind = [] if said is None else [("content-type", "application/json; charset=utf-8")]
    request = OutboundRequest(
        url=f"{place.base_url.rstrip('/')}/api/{method}",
        method="GET" if said is None else "POST",
        headers=[("authorization", f"Bearer {place.token}"), ("accept", "application/json"), *kind],
        body=body,
        answer_bytes_max=ANSWER_BYTES_MAX,
    )
    return place.outside.ask(request, seconds=min(ANSWER_SECONDS, place.seconds_left), caller=place.caller)


def _slack_answer_document(answer: OutboundAnswer) -> Mapping[str, Any] | None:
    try:
        said = json.loads(answer.content)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, Mapping) else None


def escaped_for_slack(text: str) -> str:
    """As Slack's text: what a stranger wrote must call no channel (`<!channel>`) and hide no address behind words."""
    safe = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    if len(safe) <= TEXT_LENGTH_MAX:
        return safe
    cut = safe[:TEXT_LENGTH_MAX]
    begun = cut.rfind("&", TEXT_LENGTH_MAX - 5)
    return (cut if begun < 0 or ";" in cut[begun:] else cut[:begun]) + "…"
