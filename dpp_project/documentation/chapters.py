"""Which pages there are, in which order, and for which readers.

A page that no part names stands in the last one by itself, so that a new page is never out of reach; a page that a part
names and that is not there is left out, so that an image without docs/ serves the reference alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

FOLDER: Final = Path(__file__).resolve().parents[2] / "docs"
DECISIONS: Final = "adr"
"""The folder of decisions: each has a page, and one page lists them."""

PARTS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "Begin": {
            "quickstart": "From nothing to a paid run and its bill",
            "tutorial": "A cap, a webhook, an agent and a workspace, step by step",
        },
        "Use": {
            "api": "What all addresses have in common; a run from submit to result",
            "keys": "Signing in, scopes, making, rotating and revoking keys",
            "paying": "Holds, charges, the minimum fee, caps and statements",
            "packs": "What is for sale, and how to add a pack",
            "packs/decision": "Answers a question from a text",
            "packs/url": "Fetches public pages",
            "packs/ocr": "Reads scanned pages, Korean and English",
            "packs/compliance": "Holds texts to rules",
            "packs/eval": "Scores outputs against expected ones",
            "packs/command": "Runs a command in a workspace",
            "waiting": "Ask once, and let the answer come when it is there",
            "webhooks": "What happens is sent to addresses of yours",
            "mcp": "The product as tools of an agent",
            "client": "The package and the command for Python",
            "caps": "What runs of a day, a week, a month may cost",
            "usage": "What runs came to, by day, pack, key and reason",
            "workspaces": "A home folder and what works in it, kept for you",
            "automations": "What happens elsewhere buys runs",
            "automations_sources": "GitHub, Jira, schedules, hooks, Slack",
            "auth_errors": "Failed sign-ins, reported and grouped",
            "account": "Your own pages: balance, runs, keys, statement",
            "glossary": "The words, each with one meaning",
        },
        "Operate": {
            "operations": "Start and stop, settings, checks, runbooks",
            "deploy": "From nothing to a run on AWS",
            "console": "The operators' pages",
            "tickets": "What operators ask for in writing, and who approves it",
            "metrics": "Every metric and what it tells",
            "scaling": "What a request costs, and what limits it",
            "performance": "What was measured, and how to repeat it",
            "data": "Every table, object, key and file: how long it stays",
            "events": "How an event gets to its handler; runbook",
            "workspaces_operating": "Hosts, drivers, the proxy",
            "money": "Ledger, balances, rebuilds, runbooks",
        },
    }
)
REST: Final = "How it is built"


@dataclass(frozen=True)
class Chapter:
    name: str
    """Its path below docs/ without `.md`, and its address below /docs/."""
    part: str
    said: str
    title: str

    @property
    def text(self) -> str:
        return (FOLDER / f"{self.name}.md").read_text(encoding="utf-8")


@cache
def documentation_chapters() -> Mapping[str, Chapter]:
    """Each page that there is, by its name, in reading order; decisions last."""
    names = {path.relative_to(FOLDER).with_suffix("").as_posix(): path for path in sorted(FOLDER.rglob("*.md"))}
    placed = [(part, name, said) for part, pages in PARTS.items() for name, said in pages.items() if name in names]
    named = {name for _, name, _ in placed}
    rest = [(REST, name, "") for name in names if name not in named]
    rest.sort(key=lambda row: (row[1].startswith(f"{DECISIONS}/"), row[1]))
    return MappingProxyType(
        {name: Chapter(name, part, said, _title(names[name])) for part, name, said in (*placed, *rest)}
    )


def is_decision(name: str) -> bool:
    return name.startswith(f"{DECISIONS}/")


def documentation_parts() -> Iterator[tuple[str, list[Chapter]]]:
    """What the menu shows: every page but the decisions, which have a list of their own."""
    shown = [chapter for chapter in documentation_chapters().values() if not is_decision(chapter.name)]
    for part in (*PARTS, REST):
        if found := [chapter for chapter in shown if chapter.part == part]:
            yield part, found


def decision_chapters() -> list[Chapter]:
    return [chapter for chapter in documentation_chapters().values() if is_decision(chapter.name)]


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as lines:
        return next((line[2:].strip().replace("`", "") for line in lines if line.startswith("# ")), path.stem)
