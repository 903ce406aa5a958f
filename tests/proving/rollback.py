"""A real Postgres is put back to an older copy of itself, under a platform that has moved on (HRD-06).

The copy is taken by pg_basebackup while runs are under way; the server is killed and started again from it, as after a
failover to a replica that lagged, or a restore to a point in time. First the same kill without the copy: what only
restarts loses nothing, and closes nothing.

    python -m tests.proving.rollback     (make prove P=rollback)
"""

import json
import secrets
import sys
import time
from functools import partial
from typing import Any

from dpp_project.devstack import http
from dpp_project.devstack.http import HttpAnswer
from tests.gear.waiting import wait_until
from tests.proving.chaos.stand import Stand
from tests.proving.proofs import report

TENANT = "t_past"
PRICE_MICROS, COST_MICROS = 250_000, 20_000
SECONDS = 90.0
RESTARTS = 3


class Platform:
    """One customer of a stand, and what he was told."""

    def __init__(self, stand: Stand) -> None:
        self.stand = stand
        [self.key] = stand.customer_keys(TENANT)
        self.top_up("first", "10.0000")

    def top_up(self, reference: str, amount: str) -> None:
        done = self.stand.manage("topup", TENANT, amount, "--reference", reference)
        assert done.returncode == 0, done.stderr

    def call(self, method: str, path: str, **more: Any) -> HttpAnswer:
        return http.call_api(method, f"{self.stand.api}{path}", key=self.key, **more)

    def submit(self, key: str | None = None, *, sleep_ms: int = 1) -> HttpAnswer:
        body = {
            "pack_type": "probe",
            "inputs": {"sleep_ms": sleep_ms, "cost_usd": "0.0200"},
            "reservation": {"max_cost_usd": "0.2500"},
        }
        return self.call("POST", "/v1/runs", send=body, headers={"Idempotency-Key": key or secrets.token_hex(12)})

    def accepted(self, **more: Any) -> str:
        answer = self.submit(**more)
        assert answer.status == 202, answer.body
        return str(answer.body["run_id"])

    def ended(self, *run_ids: str) -> None:
        for run_id in run_ids:
            wait_until(partial(self._is_completed, run_id), seconds=SECONDS, pause_seconds=0.1, what=f"{run_id}'s end")

    def _is_completed(self, run_id: str) -> bool:
        return bool(self.call("GET", f"/v1/runs/{run_id}").body.get("status") == "COMPLETED")

    def epoch(self) -> str:
        return str(self.stand.redis().get("budget:epoch"))

    def balance_micros(self) -> int:
        return int(str(self.stand.redis().get(f"budget:{TENANT}:balance_usd_micros")))

    def ready(self) -> dict[str, Any]:
        return http.fetch_json(f"{self.stand.api}/readyz")

    def goes_back(self) -> tuple[float, float]:
        """Seconds from the kill to closed money, and how many of them the older Postgres had begun to serve."""
        self.stand.restore_past()
        killed = time.monotonic()
        wait_until(self.stand.postgres_serves, seconds=SECONDS, what="the older Postgres")
        served = time.monotonic()
        wait_until(lambda: ".ledger-behind-" in self.epoch(), seconds=SECONDS, what="closed money")
        return time.monotonic() - killed, time.monotonic() - served


def _nothing_moves(platform: Platform, last: str, told: int) -> None:
    """The key of a lost run makes no second run; nothing is rebuilt; the verifier does not call it proved."""
    answer = wait_until(lambda: _answered(platform, last), seconds=SECONDS, what="an answer about the money")
    assert (answer.status, answer.body["reason_code"]) == (503, "BUDGET_UNAVAILABLE")
    document = wait_until(lambda: platform.ready() or None, seconds=SECONDS)
    assert "went back in time" in json.dumps(document), document
    rebuilt = platform.stand.manage("budget_rebuild")
    assert rebuilt.returncode == 1
    assert "went back in time" in rebuilt.stderr
    assert platform.stand.proves_its_money()[0] is False
    assert ".ledger-behind-" in platform.epoch()
    assert platform.balance_micros() == told


def _accepted(platform: Platform, told: int) -> float:
    """The ledger gets what it lacks: four charges, and the top-up; the hold of the lost run goes back."""
    command = ("accept_ledger_loss", "--by", "ada", "--reason", "the primary burned", "--json")
    dry = json.loads(platform.stand.manage(*command, "--dry-run").stdout)
    (mine,) = [it for it in dry["tenants"] if it["tenant_id"] == TENANT]
    assert (mine["adjust_usd_micros"], mine["open_again"]) == (5_000_000 - 4 * COST_MICROS, [])
    began = time.monotonic()
    done = platform.stand.manage(*command)
    assert done.returncode == 0, done.stderr
    wait_until(lambda: platform.submit().status == 202, seconds=SECONDS, pause_seconds=0.05, what="a run")
    seconds = time.monotonic() - began
    wait_until(
        lambda: platform.balance_micros() == told + PRICE_MICROS - COST_MICROS, seconds=SECONDS, what="the balance"
    )
    proved, said = platform.stand.proves_its_money()
    assert proved, said
    budget = platform.call("GET", "/v1/budget").body
    assert not any(str(value).startswith("-") for value in budget.values()), budget
    return seconds


def _answered(platform: Platform, key: str) -> HttpAnswer | None:
    """Until each thread has met the end of its connection the answer is that Postgres is away."""
    answer = platform.submit(key)
    return None if answer.body.get("reason_code") == "SERVICE_UNAVAILABLE" else answer


def from_the_past(platform: Platform) -> int:
    stand = platform.stand
    platform.ended(*[platform.accepted() for _ in range(3)])
    stand.save_past()
    platform.ended(*[platform.accepted() for _ in range(4)])
    platform.top_up("second", "5.0000")
    last = secrets.token_hex(12)
    waiting = platform.accepted(key=last, sleep_ms=60_000)
    told = platform.balance_micros()
    assert told == 15_000_000 - (RESTARTS + 7) * COST_MICROS - PRICE_MICROS
    closed, served = platform.goes_back()
    _nothing_moves(platform, last, told)
    reopened = _accepted(platform, told)
    assert platform.call("GET", f"/v1/runs/{waiting}").status == 404
    say(f"rolled back: closed {closed:.1f} s after the kill, {served:.2f} s after the older Postgres served")
    say(f"accepted: the next run {reopened:.1f} s after the command was given")
    return 4 + 1 + 1


def only_restarted(platform: Platform) -> int:
    platform.ended(*[platform.accepted() for _ in range(RESTARTS - 1)])
    epoch, old = platform.epoch(), platform.stand.pid("postgres")
    platform.stand.kill("postgres")
    wait_until(lambda: platform.stand.pid("postgres") not in {None, old}, seconds=SECONDS, what="another Postgres")
    again = wait_until(lambda: _run(platform), seconds=SECONDS, pause_seconds=0.1, what="a run")
    platform.ended(again)
    assert platform.epoch() == epoch
    return 1


def _run(platform: Platform) -> str | None:
    return platform.submit().body.get("run_id")


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201  a program for a person's eyes


def main() -> int:
    with Stand(small=True) as stand:
        try:
            platform = Platform(stand)
            cases = only_restarted(platform) + from_the_past(platform)
        except BaseException:
            stand.keep = True
            raise
    report(cases=cases)
    say("rollback: nothing moved on a ledger from the past, and not a micro is wrong after it was accepted")
    return 0


if __name__ == "__main__":
    sys.exit(main())
