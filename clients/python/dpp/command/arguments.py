"""What the command understands. The key is in the environment alone: what stands in argv, every process can read."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

DESCRIPTION = "Buy runs of DPP, wait for them, and read what they made."
EPILOG = """DPP_API_URL and DPP_API_KEY in the environment say where, and as whom.

exit codes: 0 done; 1 the run failed; 2 wrong use; 3 the API said no; 4 not reached, or not available; 5 not ended
within --timeout; 130 Ctrl-C (the run goes on)"""


def command_parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(
        prog="dpp", description=DESCRIPTION, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _submit(_command(commands, "submit", "Buy a run."))
    waiting = _command(commands, "wait", "Wait for a run's end, and tell its steps.")
    _run_id(waiting)
    _timeout(waiting)
    _run_id(_command(commands, "get", "Show a run."))
    listing = _command(commands, "list", "List runs, the newest first.")
    listing.add_argument("--status", choices=("QUEUED", "PROCESSING", "COMPLETED", "FAILED", "EXPIRED"))
    listing.add_argument("--pack", metavar="PACK", help="of this pack alone")
    listing.add_argument("--metadata", action="append", default=[], metavar="KEY=VALUE", help="submitted with it")
    listing.add_argument("--limit", type=_whole, default=20, metavar="N", help="so many at most (20)")
    _run_id(_command(commands, "cancel", "Cancel a run: queued it costs nothing, at work the minimum fee."))
    download = _command(commands, "download", "Get a completed run's result, checked against its SHA-256.")
    _run_id(download)
    download.add_argument("--artifact", metavar="NAME", help="a file beside the result instead")
    download.add_argument("--output", "-o", type=Path, metavar="FILE", help="write it there, whole or not at all")
    upload = _command(commands, "upload", "Upload a file, and answer the key to name it by.")
    upload.add_argument("file", type=Path, metavar="FILE")
    upload.add_argument("--content-type", metavar="TYPE", help="such as text/plain; else by the end of the file's name")
    _command(commands, "budget", "Show balance, held, charged, and caps.")
    _command(commands, "keys", "List keys with what each spent; never a key itself.")
    _command(commands, "packs", "List what can be bought.")
    commands.add_parser("mcp", help="Serve DPP's tools to an agent over stdio.", add_help=False)
    completion = commands.add_parser("completion", help="Print a script that completes dpp in a shell.")
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))
    return whole


def _command(commands: Any, name: str, said: str) -> argparse.ArgumentParser:
    found: argparse.ArgumentParser = commands.add_parser(name, help=said, description=said)
    found.add_argument("--json", action="store_true", help="print what the API answered")
    return found


def _submit(found: argparse.ArgumentParser) -> None:
    found.add_argument("pack", metavar="PACK", help="see dpp packs")
    found.add_argument("inputs", metavar="INPUTS", type=_inputs, help="a JSON object, @FILE, or - for standard input")
    found.add_argument("--max-cost", required=True, metavar="USD", help="the price ceiling, such as 0.25")
    found.add_argument("--key", metavar="KEY", help="an Idempotency-Key: the same key is the same purchase")
    found.add_argument("--timebox", type=_whole, metavar="SECONDS", help="1 to 90")
    found.add_argument(
        "--priority", type=int, choices=range(10), metavar="0-9", help="of your own that wait: 9 is first (5)"
    )
    found.add_argument("--concurrency-key", metavar="NAME", help="of those with one name, one is at work at a time")
    found.add_argument("--metadata", action="append", default=[], metavar="KEY=VALUE", help="your words for it")
    found.add_argument("--wait", action="store_true", help="and wait for its end")
    _timeout(found)


def _run_id(found: argparse.ArgumentParser) -> None:
    found.add_argument("run_id", metavar="RUN_ID")


def _timeout(found: argparse.ArgumentParser) -> None:
    found.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="wait so long at most; the run goes on")


def _whole(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("a whole number above zero")
    return int(text)


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < 1e9:
        raise argparse.ArgumentTypeError("seconds, above zero")
    return found


def _inputs(text: str) -> dict[str, Any]:
    try:
        whole = sys.stdin.read() if text == "-" else Path(text[1:]).read_text("utf-8") if text[:1] == "@" else text
        found = json.loads(whole)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"cannot be read: {error.strerror}") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise argparse.ArgumentTypeError(f"a JSON object; {where}: {error.msg}") from None
    except (ValueError, RecursionError):
        raise argparse.ArgumentTypeError("a JSON object, in UTF-8") from None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError('a JSON object, such as \'{"question": "Who pays?"}\'')
    return found


def argument_pairs(named: list[str]) -> dict[str, str]:
    """Raises ValueError with words for the caller."""
    found = {}
    for one in named:
        key, is_pair, value = one.partition("=")
        if not is_pair or not key:
            raise ValueError("--metadata: KEY=VALUE")
        found[key] = value
    return found
