"""The platform's own processes: API, worker, beat."""

import sys
from collections.abc import Mapping

from dpp_project.constants import WORKER_GRACE_SECONDS
from dpp_project.devstack import http
from dpp_project.devstack.programs import REPOSITORY, Program

STATIC = REPOSITORY / "staticfiles"
SETTLES_SECONDS = 2.0
API_DRAIN_SECONDS = 15


def programs(environ: Mapping[str, str], *, needs: tuple[str, ...]) -> list[Program]:
    """They start when what they need answers, and again when they die; a service that goes and returns they survive."""
    return [_api(environ, needs), _worker(needs), _beat(needs)]


def _api(environ: Mapping[str, str], needs: tuple[str, ...]) -> Program:
    port = int(environ["DPP_API_PORT"])
    return Program(
        name="api",
        command=[
            *(sys.executable, "-m", "granian", "--interface", "wsgi", "--no-ws", "--no-access-log"),
            *("--log-level", "warning"),  # its lines are not JSON, ours are
            *("--host", environ.get("DPP_API_HOST") or "127.0.0.1", "--port", str(port)),
            *("--workers", environ.get("DPP_API_WORKERS") or "2"),
            *("--blocking-threads", environ.get("DPP_API_THREADS") or "8"),
            *("--respawn-failed-workers", "--workers-kill-timeout", str(API_DRAIN_SECONDS)),
            *("--static-path-route", "/static", "--static-path-mount", str(STATIC)),
            "dpp_project.wsgi:application",
        ],
        ready=lambda: http.answers(f"http://127.0.0.1:{port}/readyz"),
        environ={"DPP_SERVICE": "api"},
        port=port,
        needs=needs,
        stop_seconds=API_DRAIN_SECONDS + 5,
    )


def _worker(needs: tuple[str, ...]) -> Program:
    return Program(
        name="worker",
        command=[sys.executable, "-m", "celery", "-A", "dpp_project.celery", "--quiet", "worker"],
        ready=lambda: True,
        environ={"DPP_SERVICE": "worker"},
        needs=needs,
        settles_seconds=SETTLES_SECONDS,
        # It bounds its own grace; only a worker that does not even do that is killed from here.
        stop_seconds=WORKER_GRACE_SECONDS + 5,
    )


def _beat(needs: tuple[str, ...]) -> Program:
    return Program(
        name="beat",
        command=[sys.executable, "-m", "celery", "-A", "dpp_project.celery", "--quiet", "beat"],
        ready=lambda: True,
        environ={"DPP_SERVICE": "beat"},
        needs=needs,
        settles_seconds=SETTLES_SECONDS,
    )
