# ruff: noqa: T201  commands print
"""The devstack's command line: `python -m dpp_project.devstack COMMAND`. The Makefile calls it."""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpp_project import env_file, serve
from dpp_project.devstack import demo, http
from dpp_project.devstack.folder import DEFAULT, Folder
from dpp_project.devstack.programs import DevstackError
from dpp_project.devstack.sessions import with_services
from dpp_project.devstack.stack import supervise_stack
from dpp_project.devstack.up_down import bring_stack_up, take_stack_down
from dpp_project.processes.identity import process_identity_of


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except DevstackError as error:
        print(f"devstack: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader of our output closed the pipe; the interpreter must not complain about that at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _up(options: argparse.Namespace) -> int:
    folder = _folder(options)
    bring_stack_up(folder)
    values = env_file.read_env_file(folder.env)
    print(f"DPP is up at {values['DPP_API_URL']} (docs at /docs/); keys and addresses are in {folder.env}")
    return 0


def _down(options: argparse.Namespace) -> int:
    return 0 if take_stack_down(_folder(options), now=options.now) else 1


def _demo(options: argparse.Namespace) -> int:
    folder = _folder(options)
    bring_stack_up(folder)
    values = env_file.read_env_file(folder.env)
    dependencies = http.fetch_json(f"{values['DPP_API_URL']}/readyz").get("dependencies", {})
    print("\nIt answers, and so does what it needs:")
    for name, answer in dependencies.items():
        print(f"  {name:<10} {answer['state']} in {answer['ms']} ms")
    demo.show_a_paid_run(values)
    print(f"""
API      {values["DPP_API_URL"]}
docs     {values["DPP_API_URL"]}/docs/
console  {values["DPP_ADMIN_URL"]}   {values["DPP_ADMIN_USER"]} / {values["DPP_ADMIN_PASSWORD"]}
keys     {folder.env}   (`set -a; . {folder.env}` puts them into a shell)
state    make status, make logs S=worker; make down stops it, the data stay""")
    return 0


def _print_devstack_status(options: argparse.Namespace) -> int:
    """Exit code 0 only when everything runs and answers."""
    folder = _folder(options)
    status = folder.read_status()
    alive = is_supervised(status)
    processes: dict[str, dict[str, Any]] = status.get("processes", {})
    print(f"{'NAME':<10} {'PID':>8}  {'STATE':<10} {'PORT':>6} {'RESTARTS':>9}")
    for name, row in processes.items():
        state = row["state"] if alive else "down"
        pid = row["pid"] if alive and row["pid"] else "-"
        print(f"{name:<10} {pid:>8}  {state:<10} {row['port'] or '-':>6} {row['restarts']:>9}")
    for name in env_file.read_env_file(folder.env).get("DEVSTACK_GIVEN", "").split(","):
        if name:
            print(f"{name} was given from outside and is not ours to run")
    for name, states in _heard_of(folder).items():
        if states["stale"]:
            print(f"{name}: {states['stale']} of {sum(states.values())} processes are stale; the console names them")
    if not alive:
        print("no supervisor runs: `make up`")
        return 1
    return 0 if status.get("ready") and processes.keys() >= serve.PARTS.keys() else 1


def _heard_of(folder: Folder) -> dict[str, dict[str, int]]:
    """How many processes of each service the platform itself knows, alive and stale."""
    url = env_file.read_env_file(folder.env).get("DPP_API_URL")
    found: dict[str, dict[str, int]] = http.fetch_json(f"{url}/readyz").get("processes", {}) if url else {}
    return found


def is_supervised(status: dict[str, Any]) -> bool:
    """Whether the supervisor that wrote this status is still running."""
    known = status.get("supervisor")
    return isinstance(known, str) and process_identity_of(int(known.split("/")[1])) == known


def _logs(options: argparse.Namespace) -> int:
    folder = _folder(options)
    names = [options.name] if options.name else sorted(path.stem for path in folder.logs.glob("*.log"))
    missing = [name for name in names if not folder.log(name).exists()]
    if missing or not names:
        raise DevstackError(f"no log of {', '.join(missing) or 'anything'} in {folder.logs}")
    if options.follow:
        os.execvp("tail", ["tail", "-n", str(options.lines), "-F", *(str(folder.log(name)) for name in names)])  # noqa: S606, S607
    for name in names:
        if len(names) > 1:
            print(f"==> {name} <==")
        print(folder.end_of_log(name, options.lines))
    return 0


def _with_services(options: argparse.Namespace) -> int:
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise DevstackError("with-services needs a command after --")
    with _folder_or_passing(options.state) as folder:
        return with_services(folder, command)


@contextmanager
def _folder_or_passing(state: str | None) -> Iterator[Folder]:
    if state is not None:
        yield Folder(Path(state).resolve())
        return
    passing = Path(tempfile.mkdtemp(prefix="dpp-services-"))
    try:
        yield Folder(passing)
    finally:
        shutil.rmtree(passing, ignore_errors=True)


def _supervise(options: argparse.Namespace) -> int:
    return supervise_stack(_folder(options))


def _reset(options: argparse.Namespace) -> int:
    folder = _folder(options)
    take_stack_down(folder, now=True)
    shutil.rmtree(folder.root, ignore_errors=True)
    print(f"{folder.root} is gone, with all data, keys and logs")
    return 0


def _folder(options: argparse.Namespace) -> Folder:
    return Folder(Path(options.state or DEFAULT).resolve())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m dpp_project.devstack", description="DPP on this machine.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], int], said: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=said, description=said)
        added.add_argument("--state", metavar="DIR", help=f"folder of the devstack (default {DEFAULT})")
        added.set_defaults(run=run)
        return added

    command("up", _up, "start everything and return when it answers; safe to repeat")
    stop = command("down", _down, "stop everything; the data stay")
    stop.add_argument("--now", action="store_true", help="kill a worker that is busy; recovery does the rest")
    command("demo", _demo, "start everything and show what answers and where it is")
    command("status", _print_devstack_status, "what runs; exit code 0 only when everything does")
    logs = command("logs", _logs, "the end of one log, or of all")
    logs.add_argument(
        "name", nargs="?", help="postgres, redis, aws, api, worker, beat, events, workspaces or supervisor"
    )
    logs.add_argument("-n", "--lines", type=int, default=40, help="how many lines (default %(default)s)")
    logs.add_argument("-f", "--follow", action="store_true", help="go on until interrupted")
    around = command("with-services", _with_services, "run a command with Postgres, Valkey, SQS and S3 around it")
    around.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    command("supervise", _supervise, "what `up` starts: run everything in the foreground until told to stop")
    command("reset", _reset, "stop everything and delete data, keys and logs")
    return parser
