"""How soon a workspace at rest answers: a command is asked for, and again every 50 ms, until it was run.

    make bench B=workspace_wake

A platform of its own, as `make up` starts it, and the public API. From nothing, from STANDBY, and from ARCHIVED with a
home of 10 MB; the target is one second from STANDBY.
"""

import statistics
import time
import uuid
from typing import Any, Final

from dpp_project.devstack import http
from tests.gear.waiting import wait_until
from tests.proving.chaos.stand import Stand

TURNS: Final = 15
ASKED_EVERY_SECONDS: Final = 0.05
PATIENCE_SECONDS: Final = 60.0
TARGET_SECONDS: Final = 1.0
ENVIRON: Final = {"DPP_WORKSPACES_RUNNING_PER_TENANT": "50", "DPP_WORKSPACES_PER_TENANT": "50"}
HOME: Final = ["/bin/sh", "-c", "head -c 10000000 /dev/urandom > ~/data; sync"]


class Bench:
    def __init__(self, api: str, key: str) -> None:
        self._api = api
        self._key = key

    def call(self, method: str, path: str, send: dict[str, Any] | None = None) -> http.HttpAnswer:
        headers = {"If-Match": "*"} if method == "PATCH" else {}
        return http.call_api(method, f"{self._api}/v1/workspaces{path}", key=self._key, send=send, headers=headers)

    def made(self) -> str:
        answer = self.call("POST", "", {"name": f"wake-{uuid.uuid4().hex[:8]}"})
        assert answer.status == 201, answer
        return str(answer.body["workspace_id"])

    def wake(self, workspace_id: str, *argv: str) -> float:
        """Seconds until a command was run."""
        began = time.monotonic()
        while True:
            answer = self.call("POST", f"/{workspace_id}/exec", {"argv": list(argv) or ["true"]})
            if answer.status == 200:
                return time.monotonic() - began
            assert time.monotonic() - began < PATIENCE_SECONDS, answer
            time.sleep(ASKED_EVERY_SECONDS)

    def rest(self, workspace_id: str, level: str) -> float:
        """Seconds until it is there, seen at rest."""
        began = time.monotonic()
        answer = self.call("PATCH", f"/{workspace_id}", {"desired_state": level})
        assert answer.status == 200, answer
        wait_until(
            lambda: (now := self.call("GET", f"/{workspace_id}").body)["phase"] == level and now["operation"] == "NONE",
            seconds=PATIENCE_SECONDS,
            pause_seconds=ASKED_EVERY_SECONDS,
            what=level,
        )
        return time.monotonic() - began


def say(what: str, seconds: list[float], *, target: float | None = None) -> None:
    p95 = statistics.quantiles(seconds, n=20, method="inclusive")[-1]
    aim = "" if target is None else f"   target {target:.1f} s: {'held' if p95 <= target else 'MISSED'}"
    print(f"{what:28s} p50 {statistics.median(seconds):5.2f} s   p95 {p95:5.2f} s   n {len(seconds)}{aim}", flush=True)


def main() -> None:
    with Stand(small=True, environ=ENVIRON) as on:
        (key,) = on.customer_keys("t_wake")
        bench = Bench(on.api, key)
        say("nothing -> RUNNING", [bench.wake(bench.made()) for _ in range(TURNS)])
        one = bench.made()
        bench.wake(one, *HOME)
        for level, target in (("STANDBY", TARGET_SECONDS), ("ARCHIVED", None)):
            down, up = [], []
            for _ in range(TURNS):
                down.append(bench.rest(one, level))
                up.append(bench.wake(one))
            say(f"RUNNING -> {level}", down)
            say(f"{level} -> RUNNING", up, target=target)


if __name__ == "__main__":
    main()
