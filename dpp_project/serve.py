"""How each process of the platform is started, everywhere: `python -m dpp_project.serve api|worker|beat`.

It checks the environment, refuses a Redis that would drop money, and then becomes the server: one process, one pid,
signals arrive where they belong.
"""

import os
import sys
from collections.abc import Callable

from dpp_project import env
from dpp_project.env import Environment

API_DRAIN_SECONDS = 15
STATIC_FOLDER = "staticfiles"


def api(values: Environment) -> list[str]:
    return [
        *(sys.executable, "-m", "granian", "--interface", "wsgi", "--no-ws", "--no-access-log"),
        *("--log-level", "warning"),  # its lines are not JSON, ours are
        *("--host", values.DPP_API_HOST, "--port", str(values.DPP_API_PORT)),
        *("--workers", str(values.DPP_API_WORKERS), "--blocking-threads", str(values.DPP_API_THREADS)),
        *("--respawn-failed-workers", "--workers-kill-timeout", str(API_DRAIN_SECONDS)),
        *("--static-path-route", "/static", "--static-path-mount", STATIC_FOLDER),
        "dpp_project.wsgi:application",
    ]


def worker(_values: Environment) -> list[str]:
    return [sys.executable, "-m", "celery", "-A", "dpp_project.celery", "--quiet", "worker"]


def beat(_values: Environment) -> list[str]:
    return [sys.executable, "-m", "celery", "-A", "dpp_project.celery", "--quiet", "beat"]


PARTS: dict[str, Callable[[Environment], list[str]]] = {"api": api, "worker": worker, "beat": beat}


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1] not in PARTS:
        raise SystemExit(f"usage: python -m dpp_project.serve {'|'.join(PARTS)}")
    part = sys.argv[1]
    os.environ.setdefault("DPP_SERVICE", part)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dpp_project.settings")
    command = PARTS[part](env.read())
    from dpp_project import checks  # reads the settings, which only a whole environment allows

    checks.refuse_unsafe_redis()
    os.execv(command[0], command)  # noqa: S606  becoming the server is the point


if __name__ == "__main__":
    main()
