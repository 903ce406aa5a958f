# ruff: noqa: T201  showing is its purpose
"""A paid run as a tenant sees it, from submit to its bill, over the API alone."""

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from dpp_project.devstack import environment, http
from dpp_project.devstack.programs import REPOSITORY, DevstackError

CEILING_USD = "0.2500"
PATIENCE_SECONDS = 60.0
WAIT_SECONDS = 5
"""For each answer, as the docs advise; http.call_api gives one up after 10."""
FAVOURITE = "decision"


def show_a_paid_run(values: Mapping[str, str]) -> None:
    api, key = values["DPP_API_URL"], values["DPP_API_KEY"]
    packs = {pack["pack_type"]: pack for pack in _get(f"{api}/v1/packs", key)["packs"]}
    if not packs:
        print("\nNo pack is for sale here (DPP_ENABLE_PROBE_PACK=1 brings the one for tests), so no run is shown.")
        return
    pack = packs.get(FAVOURITE) or next(iter(packs.values()))
    before = _get(f"{api}/v1/budget", key)
    print(f"\nA paid run of {pack['pack_type']}, with ${before['balance_usd']} to spend:")
    run_id = _submitted_demo_run(api, key, pack)["run_id"]
    print(f"  submitted  {run_id}, holding at most ${CEILING_USD}")
    run = _until_ended(f"{api}/v1/runs/{run_id}", key)
    cost = run["cost"]
    print(f"  ended      {run['status']}, {run['money_state']}")
    print(f"  bill       ${cost['used']} used of ${cost['reserved']} held, ${cost['budget_remaining']} left")
    if run["status"] != "COMPLETED":
        raise DevstackError(f"the run did not complete: {run.get('result')}; `make logs S=worker` says why.")
    envelope = http.fetch_json(run["result"]["presigned_url"])
    print(f"  result     {envelope.get('data')}")
    _show_the_books(values, api, key)


def _show_the_books(values: Mapping[str, str], api: str, key: str) -> None:
    entries = _get(f"{api}/v1/budget/entries?limit=2", key)
    for entry in entries["entries"]:
        print(f"  ledger     {entry['kind']} ${entry['amount_usd']}  {entry.get('run_id') or entry.get('reference')}")
    proof = subprocess.run(
        [sys.executable, "manage.py", "money_verify"],
        cwd=REPOSITORY,
        env=environment.for_programs(os.environ, values),
        capture_output=True,
        text=True,
        check=False,
    )
    print(f"  the law    {' '.join(proof.stdout.split())}")
    if proof.returncode != 0:
        raise DevstackError(f"the books do not agree: {proof.stderr}")


def _submitted_demo_run(api: str, key: str, pack: Mapping[str, Any]) -> dict[str, Any]:
    answer = http.call_api(
        "POST",
        f"{api}/v1/runs",
        key=key,
        headers={"Idempotency-Key": f"demo-{uuid.uuid4().hex}"},
        send={
            "pack_type": pack["pack_type"],
            "inputs": pack["example"],
            "reservation": {"max_cost_usd": CEILING_USD},
        },
    )
    if answer.status != HTTPStatus.ACCEPTED:
        raise DevstackError(f"the run was not accepted: {answer.body}")
    return answer.body


def _until_ended(url: str, key: str) -> dict[str, Any]:
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        run = _get(f"{url}?wait={WAIT_SECONDS}", key)
        if run["status"] in {"COMPLETED", "FAILED"}:
            return run
    raise DevstackError(f"the run has not ended after {PATIENCE_SECONDS:.0f} s; `make logs S=worker` says why.")


def _get(url: str, key: str) -> dict[str, Any]:
    answer = http.call_api("GET", url, key=key)
    if answer.status != HTTPStatus.OK:
        raise DevstackError(f"{url} answered {answer.status}: {answer.body}")
    return answer.body
