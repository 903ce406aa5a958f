"""docs/chaos.md: what was done to the platform, what it took to come back, and what was counted at the end."""

import os
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.proving.chaos.audit import Findings
from tests.proving.chaos.automations_audit import AutomationFindings
from tests.proving.chaos.caps_audit import CapFindings
from tests.proving.chaos.faults import Event
from tests.proving.chaos.homes_audit import HomeFindings

HEAD = """# Chaos

Written by `make chaos` itself; a run of five minutes or more replaces it. The whole platform, as `make up` starts it,
runs under steady load while its processes and services are killed, stopped, cut off, flushed and rolled back, and
clocks go wrong by an hour. Customers repeat with the same Idempotency-Key whatever is not answered, and keep their
receipts. Then the faults end, recovery has its time, and everything is counted:

- each run whose receipt a customer holds stands under its key, and was seen to end as its row says; no other run was
  made but those that gave their key back unsubmitted, and these cost nothing;
- each run was started at most once, ended once (`run_history`) and was charged once, no more than was held, and to the
  micro what its bill says (`ledger_entries`);
- each top-up that was answered is entered once; balances are the ledger's sums, no hold is left, and
  `manage.py money_verify` proves it; nothing is open, queued or on its way;
- each result that was sold can be had, with the hash that was sealed;
- each auth error that a customer reported stands once, was analysed once and is in the cluster of its kind; no event
  was given up; the end of each run reached its tenant's webhook under one id, signed, and was taken at least once;
- of a tenant whose caps, and whose agents' key's, are changed under way, for a day and in total: at no hold was more
  counted (charged, or held and able to be charged) than the limit that bound it; the counters are the ledger's sums;
  when all is settled, exactly what is left is accepted and 0.0001 USD more refused, with the figures of
  `GET /v1/budget`; one `cap.reached` went out for each full window and limit. Fifty agents share the capped key;
- of workspaces, whose tenants write and remove files by requests and by runs of the pack `command`, ask for STANDBY and
  ARCHIVED, wake them, delete and undelete them, while the process that holds them is killed, stopped and doubled, the
  bucket is cut off, slow or silent, and inits are killed: in the end each is woken, hashed on disk and archived, and
  its archive holds that very tree; each file that was answered as written is in it with its content, none that was
  answered as removed; no act was done twice; each volume, container, process, object and upload has a row that accounts
  for it; no workspace has an error, or an operation that is not over;
- of automations, whose events come as signed hooks that are repeated until they are taken, some again after that: each
  event stands once and ended as its kind may, by no rule, a template that does not fit, or one task; its attempts are
  runs under their own keys, and to the micro what runs and ledger say; a task that failed had used all its attempts;
  each task has one result and one message, and the message came under one id, signed, with its own text.
"""


@dataclass(frozen=True)
class Day:
    seed: int
    seconds: float
    drained_after: float
    events: Sequence[Event]
    findings: Findings
    answers: Mapping[str, int]
    restarts: Mapping[str, int]
    kills: Mapping[str, int]


def page(day: Day) -> str:
    return "\n".join([HEAD, *_summary(day), *_faults(day.events), *_ends(day.findings), *_answers(day)])


def _summary(day: Day) -> list[str]:
    found = day.findings
    verdict = "nothing is wrong" if not found.wrong else f"**{len(found.wrong)} things are wrong**"
    return [
        "## What was found",
        "",
        f"- Verdict: {verdict}.",
        f"- {len(day.events)} faults in {day.seconds:.0f} s, seed {day.seed} (`SEED={day.seed}` deals the same again).",
        f"- All was over {day.drained_after:.0f} s after the last fault.",
        f"- The machine: {os.cpu_count()} cores, at the end a load of {os.getloadavg()[2]:.0f} over 15 minutes.",
        f"- {found.accepted:,} runs accepted; {found.rows:,} rows; what customers have read is what the rows say.",
        f"- {found.deposits:,} top-ups of {found.credited_micros:,} micros, {found.charged_micros:,} micros charged.",
        f"- {found.results_read:,} results read back, each with the hash that was sealed.",
        f"- {found.events.reports:,} auth errors reported, each analysed once, in {found.events.clusters} clusters.",
        f"- {found.events.messages:,} webhooks came {found.events.letters:,} times, {found.events.doubled:,} doubled.",
        _of_caps(found.caps),
        _of_homes(found.homes),
        _of_automations(found.automations),
        f"- Dead letters stored: {found.dead_letters}.",
        *(f"- WRONG: {what}" for what in found.wrong),
        "",
    ]


def _of_caps(caps: CapFindings) -> str:
    return (
        f"- Under caps, of 50 agents and a neighbour, {caps.accepted:,} runs were accepted and {caps.refused:,} submits"
        f" refused; {caps.changes} changes of caps, {caps.messages} full windows told; {caps.charged_micros:,} micros"
        f" charged, {caps.fullest_percent:.2f} % of a limit counted at the fullest."
    )


def _of_homes(homes: HomeFindings) -> str:
    return (
        f"- In {homes.homes} workspaces, {homes.deleted} of them deleted in the end, {homes.files:,} files were written"
        f" and all are there ({homes.unanswered_there} whose answer was lost beside them), {homes.removed} removed,"
        f" {homes.runs} runs of commands; {homes.operations:,} operations, {homes.taken_over} taken over,"
        f" {homes.archives} archives."
    )


def _of_automations(automations: AutomationFindings) -> str:
    return (
        f"- Of automations {automations.events:,} events, {automations.repeated:,} handed over twice, became"
        f" {automations.tasks:,} tasks and {automations.runs:,} runs of {automations.charged_micros:,} micros;"
        f" {automations.messages:,} messages, {automations.alarms:,} of them alarms, came {automations.letters:,}"
        f" times, {automations.doubled:,} doubled."
    )


def _faults(events: Sequence[Event]) -> list[str]:
    """A fault that ends at once is measured from its stroke, one that lasts from its end."""
    by_kind: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_kind[event.kind].append(event)
    lines = [
        "## Faults, and how soon all was well",
        "",
        "Seconds from the end of the fault until a submit asked after it was accepted, and until a run asked for after",
        "it was seen to end; median / worst. `meanwhile`: runs accepted while the fault lasted.",
        "",
        "| fault | times | lasted, longest | accepted meanwhile | accepts again | ends runs again |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for kind, those in sorted(by_kind.items()):
        serving = [event.serving_after for event in those if event.serving_after is not None]
        ending = [event.ending_after for event in those if event.ending_after is not None]
        lasted = max(event.lasted for event in those)
        meanwhile = sum(event.accepted_meanwhile for event in those) if lasted > 1 else "-"
        lines.append(
            f"| {kind} | {len(those)} | {f'{lasted:.0f}' if lasted > 1 else '-'} | {meanwhile}"
            f" | {_spread(serving)} | {_spread(ending)} |"
        )
    lines += ["", "In order:", "", "| at, s | what |", "|---:|---|"]
    return [*lines, *(f"| {event.at:.0f} | {event.kind}: {event.what} |" for event in events), ""]


def _spread(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.1f} / {max(seconds):.1f}" if seconds else "-"


def _ends(found: Findings) -> list[str]:
    return [
        "## How the runs ended",
        "",
        *_table("end", found.ends),
        "The actors that ended them; all but the worker, the owner and the submit itself are recovery:",
        "",
        *_table("by", found.ended_by),
    ]


def _answers(day: Day) -> list[str]:
    lives = [f"| {name} | {day.kills.get(name, 0)} | {day.restarts.get(name, 0)} |" for name in sorted(day.restarts)]
    return [
        "## What customers were answered",
        "",
        *_table("answer", Counter(day.answers)),
        "## Processes",
        "",
        "| process | killed by us | started again |",
        "|---|---:|---:|",
        *lives,
        "",
    ]


def _table(name: str, counts: Counter[str]) -> list[str]:
    rows = [f"| {key} | {count:,} |" for key, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    return [f"| {name} | count |", "|---|---:|", *rows, ""]
