"""Jira Cloud's search, as it behaves: an index that lags, dates in the account's zone, tokens for pages, 410."""

import base64
import re
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from dpp_project import clock
from tests.gear.servers.services.hosting import Asked, Reply, Service

EMAIL, TOKEN = "bot@acme.example", "jira-token"
OWN_ACCOUNT = "5b10-own"
REMOVED = {
    "errorMessages": ["The requested API has been removed. Please migrate to the /rest/api/3/search/jql API."],
    "errors": {},
}


class Jira(Service):
    def __init__(self) -> None:
        super().__init__()
        self.issues: dict[str, dict[str, Any]] = {}
        self.found_at: dict[str, datetime] = {}
        """From when on the search finds an issue as it is; until then it finds it as it was, or not at all."""
        self.indexed: dict[str, dict[str, Any]] = {}
        self.zone = ZoneInfo("America/Los_Angeles")
        self.tokens: dict[str, int] = {}

    def updates(
        self,
        issue: str = "10001",
        *,
        by: str = "6c20-ann",
        lag: timedelta = timedelta(0),
        comment: str = "Please look.",
    ) -> dict[str, Any]:
        """Somebody comments on an issue; the index hears of it after `lag`."""
        at = clock.now()
        self.issues[issue] = {
            "id": issue,
            "key": f"SHOP-{issue[-3:].lstrip('0')}",
            "self": f"https://acme.atlassian.net/rest/api/3/issue/{issue}",
            "fields": {
                "summary": "A door",
                "status": {"name": "Open", "id": "1"},
                "project": {"key": "SHOP", "name": "Shop", "id": "2"},
                "assignee": {"accountId": by, "displayName": "Ann", "emailAddress": "ann@acme.example"},
                "labels": ["door"],
                "updated": _written(at),
                "comment": {
                    "comments": [
                        {
                            "id": "1",
                            "author": {"accountId": by, "displayName": "Ann"},
                            "body": {"type": "doc", "content": [{"type": "text", "text": comment}]},
                            "created": _written(at),
                            "updated": _written(at),
                        }
                    ]
                },
            },
        }
        self.found_at[issue] = at + lag
        return self.issues[issue]

    def answer(self, asked: Asked) -> Reply:
        wanted = "Basic " + base64.b64encode(f"{EMAIL}:{TOKEN}".encode()).decode()
        if asked.headers.get("authorization") != wanted:
            return Reply(401, {"errorMessages": ["You are not authenticated."]})
        if asked.path == "/rest/api/3/myself":
            return Reply(200, {"accountId": OWN_ACCOUNT, "displayName": "Bot", "timeZone": str(self.zone)})
        if asked.path == "/rest/api/3/search":
            return Reply(410, REMOVED)
        if asked.path == "/rest/api/3/search/jql" and asked.method == "POST":
            return self._search(asked.said)
        return Reply(404, {"errorMessages": ["dead link"]})

    def _search(self, said: dict[str, Any]) -> Reply:
        since = self._since(said["jql"])
        if since is None:
            return Reply(400, {"errorMessages": ["Unbounded JQL queries are not allowed here."]})
        for issue, at in self.found_at.items():
            if at <= clock.now():
                self.indexed[issue] = self.issues[issue]
        rows = sorted(self.indexed.values(), key=lambda one: (one["fields"]["updated"], one["id"]))
        rows = [one for one in rows if datetime.fromisoformat(one["fields"]["updated"]) >= since]
        token = said.get("nextPageToken")
        if token is not None and token not in self.tokens:
            return Reply(400, {"errorMessages": ["The next page token is invalid."]})
        begin, size = self.tokens.get(token or "", 0), int(said.get("maxResults", 50))
        shown = [_with(one, said.get("fields")) for one in rows[begin : begin + size]]
        if len(rows) > begin + size:
            following = f"token-{len(self.tokens) + 1}"
            self.tokens[following] = begin + size
            return Reply(200, {"issues": shown, "nextPageToken": following})
        return Reply(200, {"issues": shown, "isLast": True})

    def _since(self, jql: str) -> datetime | None:
        if relative := re.search(r"updated >= -(\d+)m", jql):
            return clock.now() - timedelta(minutes=int(relative[1]))
        if bare := re.search(r'updated >= "(\d{4}-\d\d-\d\d \d\d:\d\d)"', jql):
            return datetime.strptime(bare[1], "%Y-%m-%d %H:%M").replace(tzinfo=self.zone)
        return None


def _with(issue: dict[str, Any], fields: list[str] | None) -> dict[str, Any]:
    """Unless fields are named, ids alone."""
    if not fields:
        return {"id": issue["id"]}
    kept = {name: value for name, value in issue["fields"].items() if name in fields}
    return {name: issue[name] for name in ("id", "key", "self")} | {"fields": kept}


def _written(at: datetime) -> str:
    """As Jira writes it."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}+0000"
