"""From a command line to an exit code."""

import argparse
import itertools
import os
import sys
from collections.abc import Callable
from typing import Final

from dpp import mcp_bridge
from dpp.client import Client
from dpp.command import arguments, completion, screen
from dpp.documents import Run
from dpp.errors import (
    ApiError,
    ConfigurationError,
    ConnectionLostError,
    DppError,
    RateLimitedError,
    RunFailedError,
    UnavailableError,
    WaitTimeoutError,
)
from dpp.operations import CONTENT_TYPES, new_key

DONE: Final = 0
RUN_FAILED: Final = 1
WRONG_USE: Final = 2
REFUSED: Final = 3
NOT_REACHED: Final = 4
NOT_ENDED: Final = 5
INTERRUPTED: Final = 130


def run() -> None:
    """The command `dpp`."""
    raise SystemExit(main(sys.argv[1:]))


def main(argv: list[str]) -> int:
    if argv[:1] == ["mcp"]:
        return mcp_bridge.main(argv[1:])
    parser = arguments.command_parser()
    asked = parser.parse_args(argv)
    if asked.command == "completion":
        sys.stdout.write(completion.completion_script(asked.shell, parser))
        return DONE
    return _carried_out(asked)


def _carried_out(asked: argparse.Namespace) -> int:
    try:
        with Client() as client:
            code = COMMANDS[asked.command](client, asked)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # `dpp list | head`: nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except OSError as error:
        screen.tell_on_screen(f"dpp: {error.filename}: {error.strerror}")
        return WRONG_USE
    except (DppError, ValueError) as error:
        return _refused(error)
    return code


def _refused(error: Exception) -> int:
    screen.tell_on_screen(f"dpp: {screen.plain_for_screen(str(error))}")
    if isinstance(error, ApiError) and error.trace_id:
        screen.tell_on_screen(f"  trace_id {screen.plain_for_screen(error.trace_id)}")
    if isinstance(error, WaitTimeoutError):
        screen.tell_on_screen(f"  wait for it again: dpp wait {error.run_id}")
        return NOT_ENDED
    if isinstance(error, ConnectionLostError):
        screen.tell_on_screen(f"  DPP_API_URL is {screen.plain_for_screen(os.environ.get('DPP_API_URL', ''))}")
    if isinstance(error, ConnectionLostError | RateLimitedError | UnavailableError):
        if error.idempotency_key is not None:
            screen.tell_on_screen(f"  repeat it with --key {error.idempotency_key}: the same purchase")
        return NOT_REACHED
    if isinstance(error, RunFailedError):
        return RUN_FAILED
    return WRONG_USE if isinstance(error, ConfigurationError | ValueError) else REFUSED


def _submit(client: Client, asked: argparse.Namespace) -> int:
    key = new_key() if asked.key is None else asked.key
    try:
        receipt = client.submit(
            asked.pack,
            asked.inputs,
            max_cost_usd=asked.max_cost,
            timebox_sec=asked.timebox,
            priority=asked.priority,
            concurrency_key=asked.concurrency_key,
            metadata=arguments.argument_pairs(asked.metadata),
            idempotency_key=key,
        )
    except KeyboardInterrupt:
        screen.tell_on_screen(
            f"\nIt is open whether the run was bought. Repeat it with --key {key}: the same purchase."
        )
        raise
    if asked.wait:
        screen.tell_on_screen(receipt.run_id)
        return _follow(client, receipt.run_id, asked)
    if asked.json:
        screen.say_json(dict(receipt.raw))
    else:
        screen.say_on_screen(receipt.run_id)
        screen.tell_on_screen(f"wait for it: dpp wait {receipt.run_id}")
    return DONE


def _wait(client: Client, asked: argparse.Namespace) -> int:
    return _follow(client, asked.run_id, asked)


def _follow(client: Client, run_id: str, asked: argparse.Namespace) -> int:
    display = screen.Display()
    try:
        try:
            for event in client.stream(run_id, timeout=asked.timeout):
                display.show(event)
        finally:
            display.end()
        return _shown(client.get(run_id), asked)
    except KeyboardInterrupt:
        screen.tell_on_screen(f"\nThe run goes on. Wait for it again: dpp wait {run_id}\nEnd it: dpp cancel {run_id}")
        raise


def _shown(found: Run, asked: argparse.Namespace) -> int:
    if asked.json:
        screen.say_json(dict(found.raw))
    else:
        screen.show_run(found)
    return RUN_FAILED if asked.command in {"submit", "wait"} and found.status == "FAILED" else DONE


def _get(client: Client, asked: argparse.Namespace) -> int:
    return _shown(client.get(asked.run_id), asked)


def _cancel(client: Client, asked: argparse.Namespace) -> int:
    return _shown(client.cancel(asked.run_id), asked)


def _list(client: Client, asked: argparse.Namespace) -> int:
    runs = client.list(
        status=asked.status,
        pack_type=asked.pack,
        metadata=arguments.argument_pairs(asked.metadata),
        page_size=min(asked.limit, 100),
    )
    found = list(itertools.islice(runs, asked.limit))
    if asked.json:
        screen.say_json([dict(one.raw) for one in found])
    else:
        for one in found:
            screen.show_run(one)
        if not found:
            screen.tell_on_screen(
                "no run" if asked.status is asked.pack is None and not asked.metadata else "no such run"
            )
    return DONE


def _download(client: Client, asked: argparse.Namespace) -> int:
    content = client.download(asked.run_id, artifact=asked.artifact, to=asked.output)
    if asked.json:
        screen.say_json({"run_id": asked.run_id, "artifact": asked.artifact, "bytes": len(content)})
    elif asked.output is None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        if sys.stdout.isatty():  # so that the prompt does not stand behind it
            screen.say_on_screen("")
    else:
        screen.tell_on_screen(f"{asked.output}: {len(content)} bytes")
    return DONE


def _upload(client: Client, asked: argparse.Namespace) -> int:
    asked.file.stat()  # that it is missing is said first
    if asked.content_type is None and asked.file.suffix.lower() not in CONTENT_TYPES:
        raise ValueError(f"--content-type: give one, or a file that ends in one of {', '.join(CONTENT_TYPES)}")
    key = client.upload(asked.file, content_type=asked.content_type)
    if asked.json:
        screen.say_json({"key": key})
    else:
        screen.say_on_screen(key)
    return DONE


def _budget(client: Client, asked: argparse.Namespace) -> int:
    budget = client.budget()
    if asked.json:
        screen.say_json(dict(budget.raw))
    else:
        screen.show_budget(budget)
    return DONE


def _keys(client: Client, asked: argparse.Namespace) -> int:
    keys = list(client.keys())
    if asked.json:
        screen.say_json([dict(key.raw) for key in keys])
    else:
        screen.show_keys(keys)
    return DONE


def _packs(client: Client, asked: argparse.Namespace) -> int:
    packs = client.packs()
    if asked.json:
        screen.say_json([dict(pack.raw) for pack in packs])
    else:
        for pack in packs:
            screen.say_on_screen(f"{pack.pack_type}: {pack.summary}")
    return DONE


COMMANDS: Final[dict[str, Callable[[Client, argparse.Namespace], int]]] = {
    "submit": _submit,
    "wait": _wait,
    "get": _get,
    "list": _list,
    "cancel": _cancel,
    "download": _download,
    "upload": _upload,
    "budget": _budget,
    "keys": _keys,
    "packs": _packs,
}
