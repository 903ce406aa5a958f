"""GitHub's notifications, as they behave: validators, a 304 that can stick, paging, X-Poll-Interval, classic tokens."""

import hashlib
import json
from datetime import datetime
from email.utils import format_datetime
from typing import Any

from dpp_project import clock
from tests.gear.servers.services.hosting import GITHUB, Asked, Reply, Service

TOKEN = "ghp_classic"
FINE_GRAINED = "github_pat_fine"
OWN_LOGIN = "our-bot"
BASE = f"https://{GITHUB}"


class GitHub(Service):
    def __init__(self) -> None:
        super().__init__()
        self.threads: dict[str, dict[str, Any]] = {}
        self.comments: dict[str, dict[str, Any]] = {}
        self.poll_interval = 60
        self.sticks = False
        """A question with validators is answered 304, whatever is new."""

    def happens(
        self,
        thread: str = "1",
        *,
        by: str = "octocat",
        at: datetime | None = None,
        body: str = "Please look.",
        **more: Any,
    ) -> dict[str, Any]:
        """Somebody comments in a thread, and the bot is notified of it."""
        moved = _zulu(at or clock.now())
        number = len(self.comments) + 1
        comment = f"{BASE}/repos/acme/shop/issues/comments/{number}"
        self.comments[comment.removeprefix(BASE)] = {
            "id": number,
            "user": {"login": by, "type": "User"},
            "body": body,
            "html_url": f"https://github.com/acme/shop/issues/{thread}#issuecomment-{number}",
            "created_at": moved,
            "updated_at": moved,
        }
        issue = f"{BASE}/repos/acme/shop/issues/{thread}"
        notification = {
            "id": thread,
            "unread": True,
            "reason": "mention",
            "updated_at": moved,
            "last_read_at": None,
            "subject": {"title": "A door", "url": issue, "latest_comment_url": comment, "type": "Issue"},
            "repository": {"id": 1, "full_name": "acme/shop", "html_url": "https://github.com/acme/shop"},
            "url": f"{BASE}/notifications/threads/{thread}",
            "subscription_url": f"{BASE}/notifications/threads/{thread}/subscription",
        } | more
        self.threads[thread] = notification
        return notification

    def answer(self, asked: Asked) -> Reply:
        token = asked.headers.get("authorization", "").removeprefix("Bearer ")
        if token not in {TOKEN, FINE_GRAINED}:
            return Reply(401, {"message": "Bad credentials"})
        scopes = {"x-oauth-scopes": "notifications, repo"} if token == TOKEN else {}
        if asked.path == "/user":
            return Reply(200, {"login": OWN_LOGIN, "id": 7}, scopes)
        if asked.path in self.comments:
            return Reply(200, self.comments[asked.path], scopes)
        if asked.path != "/notifications":
            return Reply(404, {"message": "Not Found"})
        if token == FINE_GRAINED:
            return Reply(403, {"message": "Resource not accessible by personal access token"})
        return self._notifications(asked)

    def _notifications(self, asked: Asked) -> Reply:
        query = asked.query
        rows = [
            one
            for one in self.threads.values()
            if (query.get("all") == "true" or one["unread"])
            and one["updated_at"] > query.get("since", "")
            and one["updated_at"] < query.get("before", "9999")
        ]
        rows.sort(key=lambda one: (one["updated_at"], one["id"]), reverse=True)
        etag = 'W/"' + hashlib.sha256(json.dumps(rows).encode()).hexdigest() + '"'
        always = {"x-poll-interval": str(self.poll_interval), "date": format_datetime(clock.now(), usegmt=True)}
        validator = asked.headers.get("if-none-match")
        if validator is not None and (self.sticks or validator == etag):
            return Reply(304, None, always | {"etag": validator})
        size, page = int(query.get("per_page", "50")), int(query.get("page", "1"))
        shown = rows[(page - 1) * size : page * size]
        headers = always | {"etag": etag, "last-modified": format_datetime(clock.now(), usegmt=True)}
        if len(rows) > page * size:
            following = "&".join(f"{name}={value}" for name, value in (query | {"page": str(page + 1)}).items())
            headers["link"] = f'<{BASE}/notifications?{following}>; rel="next", <{BASE}/notifications>; rel="first"'
        return Reply(200, shown, headers)


def _zulu(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
