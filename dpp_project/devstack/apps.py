"""The platform's own processes: API, worker, beat, events, and workspaces where a driver is named."""

import sys
from collections.abc import Mapping
from pathlib import Path

from dpp_project import env, serve
from dpp_project.constants import EVENTS_GRACE_SECONDS, WORKER_GRACE_SECONDS
from dpp_project.devstack import http
from dpp_project.devstack.programs import Program

SETTLES_SECONDS = 2.0


def app_programs(environ: Mapping[str, str], *, needs: tuple[str, ...], metrics_folder: Path) -> list[Program]:
    """They start once the services they need answer, restart when they die, and survive a service's outage."""
    values = env.read_environment(environ)
    shared = {"DPP_METRICS_DIR": values.DPP_METRICS_DIR or str(metrics_folder)}
    found = [
        Program(
            name="api",
            command=_serve("api"),
            ready=lambda: http.url_answers(f"http://127.0.0.1:{values.DPP_API_PORT}/readyz"),
            environ={**shared, "DPP_SERVICE": serve.SERVICE_NAMES["api"]},
            port=values.DPP_API_PORT,
            needs=needs,
            stop_seconds=serve.API_DRAIN_SECONDS + 5,
        ),
        Program(
            name="worker",
            command=_serve("worker"),
            ready=lambda: True,
            environ={**shared, "DPP_SERVICE": serve.SERVICE_NAMES["worker"]},
            needs=needs,
            settles_seconds=SETTLES_SECONDS,
            # The worker bounds its own grace; this kills only a worker that failed to.
            stop_seconds=WORKER_GRACE_SECONDS + 5,
        ),
        Program(
            name="beat",
            command=_serve("beat"),
            ready=lambda: True,
            environ={**shared, "DPP_SERVICE": serve.SERVICE_NAMES["beat"]},
            needs=needs,
            settles_seconds=SETTLES_SECONDS,
        ),
        Program(
            name="events",
            command=_serve("events"),
            ready=lambda: True,
            environ={**shared, "DPP_SERVICE": serve.SERVICE_NAMES["events"]},
            needs=needs,
            settles_seconds=SETTLES_SECONDS,
            stop_seconds=EVENTS_GRACE_SECONDS + 5,
        ),
    ]
    if values.DPP_WORKSPACES_DRIVER is not None:
        found.append(
            Program(
                name="workspaces",
                command=_serve("workspaces"),
                ready=lambda: True,
                environ={**shared, "DPP_SERVICE": serve.SERVICE_NAMES["workspaces"]},
                port=values.DPP_WORKSPACES_PROXY_PORT,
                needs=needs,
                settles_seconds=SETTLES_SECONDS,
                stop_seconds=EVENTS_GRACE_SECONDS + 5,
            )
        )
    return found


def _serve(part: str) -> list[str]:
    return [sys.executable, "-m", "dpp_project.serve", part]
