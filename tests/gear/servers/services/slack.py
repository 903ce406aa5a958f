"""Slack's Web API, as it behaves: errors in a 200, 429 with Retry-After, metadata for who asks, threads that are gone.

A reply to a thread whose first message was deleted is not refused: it is posted at the channel's root, and its answer
has no thread_ts.
"""

import hmac
import json
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl

from dpp_project import clock
from tests.gear.servers.services.hosting import Asked, Reply, Service

TOKEN = "xoxb-bot"
SIGNING_SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
BOT_USER, BOT_ID = "UBOT", "BBOT"
CHANNEL = "C0123456789"


class Slack(Service):
    def __init__(self) -> None:
        super().__init__()
        self.messages: dict[str, list[dict[str, Any]]] = {CHANNEL: []}
        self.limited_seconds = 0
        """More than nought: every post is answered 429."""
        self.refusal = ""
        self._posts = 0

    def answer(self, asked: Asked) -> Reply:
        if asked.headers.get("authorization") != f"Bearer {TOKEN}":
            return Reply(200, {"ok": False, "error": "invalid_auth"})
        said = (
            asked.said
            if asked.headers.get("content-type", "").startswith("application/json")
            else dict(parse_qsl(asked.body.decode())) | asked.query
        )
        match asked.path:
            case "/api/auth.test":
                return Reply(200, {"ok": True, "user_id": BOT_USER, "bot_id": BOT_ID, "team_id": "T1"})
            case "/api/chat.postMessage":
                return self._post(said)
            case "/api/chat.delete":
                return self._delete(said)
            case "/api/conversations.history" | "/api/conversations.replies":
                return self._read(said, is_thread=asked.path.endswith("replies"))
        return Reply(200, {"ok": False, "error": "unknown_method"})

    def _post(self, said: dict[str, Any]) -> Reply:
        if self.limited_seconds:
            return Reply(429, {"ok": False, "error": "ratelimited"}, {"retry-after": str(self.limited_seconds)})
        if self.refusal:
            return Reply(200, {"ok": False, "error": self.refusal})
        if said["channel"] not in self.messages:
            return Reply(200, {"ok": False, "error": "channel_not_found"})
        self._posts += 1
        ts = f"{int(clock.now().timestamp())}.{self._posts:06d}"
        message = {
            "type": "message",
            "user": BOT_USER,
            "bot_id": BOT_ID,
            "text": said["text"],
            "ts": ts,
            "metadata": said.get("metadata"),
        }
        thread = said.get("thread_ts")
        if thread is not None and self._stands(said["channel"], thread):
            message["thread_ts"] = thread
        self.messages[said["channel"]].append(message)
        return Reply(200, {"ok": True, "channel": said["channel"], "ts": ts, "message": message})

    def _delete(self, said: dict[str, Any]) -> Reply:
        if not self._stands(said["channel"], said["ts"]):
            return Reply(200, {"ok": False, "error": "message_not_found"})
        self.drop(said["ts"], channel=said["channel"])
        return Reply(200, {"ok": True, "channel": said["channel"], "ts": said["ts"]})

    def _read(self, said: dict[str, Any], *, is_thread: bool) -> Reply:
        rows = self.messages.get(said["channel"])
        if rows is None:
            return Reply(200, {"ok": False, "error": "channel_not_found"})
        if is_thread:
            if not self._stands(said["channel"], said["ts"]):
                return Reply(200, {"ok": False, "error": "thread_not_found"})
            rows = [one for one in rows if said["ts"] in {one["ts"], one.get("thread_ts")}]
        else:
            rows = [one for one in reversed(rows) if "thread_ts" not in one]
        rows = [one for one in rows if float(one["ts"]) >= float(said.get("oldest", "0"))]
        if str(said.get("include_all_metadata", "")).lower() not in {"true", "1"}:
            rows = [{name: value for name, value in one.items() if name != "metadata"} for one in rows]
        begin, size = int(said.get("cursor") or 0), int(said.get("limit", 100))
        following = str(begin + size) if len(rows) > begin + size else ""
        shown = rows[begin : begin + size]
        return Reply(
            200,
            {
                "ok": True,
                "messages": shown,
                "has_more": bool(following),
                "response_metadata": {"next_cursor": following},
            },
        )

    def _stands(self, channel: str, ts: str) -> bool:
        return any(one["ts"] == ts for one in self.messages[channel])

    def drop(self, ts: str, *, channel: str = CHANNEL) -> None:
        self.messages[channel] = [one for one in self.messages[channel] if one["ts"] != ts]

    def texts(self, channel: str = CHANNEL) -> list[str]:
        return [one["text"] for one in self.messages[channel]]

    def roots(self, channel: str = CHANNEL) -> list[str]:
        return [one["text"] for one in self.messages[channel] if "thread_ts" not in one]


def signed(body: bytes, *, at: datetime, secret: str = SIGNING_SECRET) -> dict[str, str]:
    """The headers with which Slack sends this body."""
    timestamp = str(int(at.timestamp()))
    digest = hmac.digest(secret.encode(), b"v0:" + timestamp.encode() + b":" + body, "sha256").hex()
    return {"x-slack-request-timestamp": timestamp, "x-slack-signature": f"v0={digest}"}


def an_answer(
    text: str, *, thread: str, channel: str = CHANNEL, user: str = "UANN", event_id: str = "Ev1", **more: Any
) -> bytes:
    """What Slack sends when somebody writes in a thread."""
    event = {
        "type": "message",
        "channel": channel,
        "user": user,
        "text": text,
        "ts": f"{float(thread) + 60:.6f}",
        "thread_ts": thread,
        "channel_type": "channel",
    } | more
    return json.dumps(
        {
            "token": "old",
            "team_id": "T1",
            "api_app_id": "A1",
            "type": "event_callback",
            "event_id": event_id,
            "event_time": 1,
            "event": event,
        }
    ).encode()
