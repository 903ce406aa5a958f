"""How each process of the platform is started, everywhere: `python -m dpp_project.serve PART`.

It checks the environment, refuses a Redis that would drop money, makes a folder for its counts, and then becomes the
server: one process, one pid, signals arrive where they belong.
"""

import logging
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path

from dpp_project import env
from dpp_project.env import Environment
from dpp_project.observe import logging as dpp_logging
from dpp_project.observe.log_files import LogFiles

API_DRAIN_SECONDS = 15
API_HEADER_SECONDS = 5
API_BACKLOG = 4_096
API_CONNECTIONS = 4_000
API_HEAD_BYTES = 65_536
"""Of a request; what a client sends before its head ends is held in memory."""
API_MEMORY_SECONDS = 5
"""How often the server looks how much its processes hold."""
"""Of one process. More wait in the backlog, unseen; those that say nothing are closed after API_HEADER_SECONDS."""
STATIC_FOLDER = "staticfiles"


def api_command(values: Environment) -> list[str]:
    return [
        *(sys.executable, "-m", "granian", "--interface", "asgi", "--http", "1", "--no-ws", "--no-access-log"),
        *("--loop", "asyncio", "--runtime-mode", "st"),
        *("--log-level", "error", "--log-config", str(Path(__file__).with_name("granian.json"))),
        *("--host", values.DPP_API_HOST, "--port", str(values.DPP_API_PORT)),
        *("--workers", str(values.DPP_API_WORKERS), "--backlog", str(API_BACKLOG)),
        *("--backpressure", str(API_CONNECTIONS), "--http1-header-read-timeout", str(API_HEADER_SECONDS * 1_000)),
        *("--http1-buffer-size", str(API_HEAD_BYTES), "--workers-max-rss", str(values.DPP_API_MEMORY_MB)),
        *("--rss-sample-interval", str(API_MEMORY_SECONDS)),
        *("--respawn-failed-workers", "--workers-kill-timeout", str(API_DRAIN_SECONDS)),
        *("--static-path-route", "/static", "--static-path-mount", STATIC_FOLDER),
        "dpp_project.asgi:application",
    ]


def worker_command(_values: Environment) -> list[str]:
    # As root Celery prints a paragraph about that at each start; every line of ours is JSON.
    quiet = ("-W", "ignore:You're running the worker")
    return [sys.executable, *quiet, "-m", "celery", "-A", "dpp_project.celery", "--quiet", "worker"]


def beat_command(_values: Environment) -> list[str]:
    return [sys.executable, "-m", "celery", "-A", "dpp_project.celery", "--quiet", "beat"]


def events_command(_values: Environment) -> list[str]:
    return [sys.executable, "-m", "dpp_project.loops_server", "events"]


def workspaces_command(_values: Environment) -> list[str]:
    return [sys.executable, "-m", "dpp_project.loops_server", "workspaces"]


def json_formatter() -> logging.Formatter:
    """The form of our log lines for the server's own, by granian.json."""
    form = dpp_logging.logging_configuration(service="api", level="INFO")["formatters"]["json"]
    made: logging.Formatter = form.pop("()")(**form)
    return made


def line_handler() -> logging.Handler:
    """Where our log lines go, for the server's own, by granian.json."""
    values = env.read_environment()
    lines = dpp_logging.logging_configuration(service="api", level="INFO", folder=values.DPP_LOG_DIR)["handlers"][
        "lines"
    ]
    return logging.StreamHandler(sys.stdout) if "()" not in lines else LogFiles(lines["folder"])


def _allow_open_files(count: int) -> None:
    """A shell's usual 1,024 would end before the connections do."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        most = count if hard == resource.RLIM_INFINITY else min(count, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


def _bound_memory(megabytes: int) -> None:
    """Of each process by itself: what asks for all of a machine's memory gets a MemoryError, which is a 500."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = megabytes << 20
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


PARTS: dict[str, Callable[[Environment], list[str]]] = {
    "api": api_command,
    "worker": worker_command,
    "beat": beat_command,
    "events": events_command,
    "workspaces": workspaces_command,
}

# Beat's process runs the recovery jobs; the logs call it by what it does (DPP-73).
SERVICE_NAMES = {"api": "api", "worker": "worker", "beat": "reaper", "events": "events", "workspaces": "workspaces"}


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1] not in PARTS:
        raise SystemExit(f"usage: python -m dpp_project.serve {'|'.join(PARTS)}")
    part = sys.argv[1]
    os.environ.setdefault("DPP_SERVICE", SERVICE_NAMES[part])
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dpp_project.settings")
    values = env.read_environment()
    command = PARTS[part](values)
    from dpp_project import checks
    from dpp_project.observe import metrics  # these read the settings, which only a whole environment allows

    checks.refuse_unsafe_redis()
    if part == "api":
        _allow_open_files(2 * API_CONNECTIONS)
        _bound_memory(2 * values.DPP_API_MEMORY_MB)
    root = Path(values.DPP_METRICS_DIR) if values.DPP_METRICS_DIR else metrics.default_root(values.DATABASE_URL)
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(metrics.own_folder(root, part))
    os.execv(command[0], command)  # noqa: S606  becoming the server is the point


if __name__ == "__main__":
    main()
