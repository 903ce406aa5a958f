"""Packs that do what no pack should, each a name for `Job.attribute`. They run in the box, and nowhere else."""

import asyncio
import contextlib
import ctypes
import errno
import hashlib
import json
import math
import os
import random
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from pydantic import BaseModel, JsonValue

from dpp_project.outbound.connecting import Rules
from dpp_project.outbound.refusals import Refused
from runs.box import wire
from runs.packs.pack import MEBIBYTE, Estimate, Pack, PackFailed, Reach, Work

NOT_IN_THE_BOX = {"django", "boto3", "botocore", "redis", "celery", "psycopg"}
SMALL = 96 * MEBIBYTE
Data = dict[str, JsonValue]


class Inputs(BaseModel):
    number: int = 0
    key: str = ""
    urls: list[str] = []


def nasty(execute: Callable[[Work[Inputs]], Any], **values: Any) -> Pack[Inputs]:
    return Pack(
        name="nasty",
        summary="For tests.",
        inputs=Inputs,
        prices=(),
        estimate=lambda _inputs: Estimate(least_micros=0, most_micros=0),
        execute=execute,
        example={},
        **values,
    )


def _look_around(work: Work[Inputs]) -> Data:
    work.meter.charge(1_000, tokens=3)
    held = [entry for entry in Path("/proc/self/fd").iterdir() if int(entry.name) > 2 and entry.exists()]
    opened: list[JsonValue] = [str(entry.readlink()) for entry in held if entry.is_symlink()]
    modules: list[JsonValue] = [name for name in sorted(sys.modules) if name.split(".")[0] in NOT_IN_THE_BOX]
    return {
        "environment": dict(os.environ),
        "modules": modules,
        "open": opened,
        "cwd": str(Path.cwd()),
        "session": os.getsid(0) == os.getpid(),
    }


def _how_it_stands(work: Work[Inputs]) -> Data:
    """Beside its neighbours: what the kernel would take first, and what is random in it."""
    work.meter.charge(0)
    return {
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "oom_score": int(Path("/proc/self/oom_score_adj").read_text(encoding="ascii")),
        "openssl": ssl.RAND_bytes(16).hex(),
        "python": random.randbytes(16).hex(),  # noqa: S311  whether it repeats
    }


def _no_network(work: Work[Inputs]) -> Data:
    work.meter.charge(0)
    found: Data = {}
    for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):
        try:
            socket.socket(family).close()
        except OSError as error:
            found[family.name] = errno.errorcode[error.errno or 0]
        else:
            found[family.name] = "open"
    ask = "import socket\ntry: socket.socket()\nexcept OSError as e: raise SystemExit(e.errno)"
    found["child"] = subprocess.run([sys.executable, "-I", "-c", ask], check=False).returncode
    first, second = socket.socketpair()
    first.sendall(b"x")
    found["pair"] = second.recv(1).decode()
    return found


def _connect_to(work: Work[Inputs]) -> Data:
    """Asks for connections without reading the URLs itself, one after the other: what came of each."""

    async def outcome(url: str) -> str:
        try:
            async with work.outbound.connection(url, seconds=2.0) as made:
                return str(made.getpeername()[0])
        except Refused as refused:
            return f"{refused.reason.value} {refused.typed_ip}"

    async def all_of_them() -> Data:
        return {url: await outcome(url) for url in work.inputs.urls}

    work.meter.charge(0)
    return asyncio.run(all_of_them())


def _redial(work: Work[Inputs]) -> Data:
    """Turns a connection that it was given against the worker's own network."""

    async def attempts() -> Data:
        libc = ctypes.CDLL(None, use_errno=True)
        found: Data = {}
        async with work.outbound.connection(work.inputs.urls[0], seconds=2.0) as made:
            nowhere, loopback = bytes(16), struct.pack("=H", socket.AF_INET) + struct.pack("!H", work.inputs.number)
            there = loopback + socket.inet_aton("127.0.0.1") + bytes(8)
            calls: dict[str, Callable[[], int]] = {
                "take apart": lambda: libc.connect(made.fileno(), nowhere, 16),
                "dial": lambda: libc.connect(made.fileno(), there, 16),
                "dial by sending": lambda: libc.sendto(made.fileno(), b"x", 1, 0x20000000, there, 16),
                "bind": lambda: libc.bind(made.fileno(), there, 16),
                "listen": lambda: libc.listen(made.fileno(), 1),
                "accept": lambda: libc.accept(made.fileno(), None, None),
            }
            for name, call in calls.items():
                found[name] = 0 if call() >= 0 else ctypes.get_errno()
            found["peer"] = made.getpeername()[1]
        return found

    work.meter.charge(0)
    return asyncio.run(attempts())


def _hoard_connections(work: Work[Inputs]) -> Data:
    """Asks for more at once than a run may, and reads no answer."""
    work.meter.charge(0)
    for number in range(1, work.inputs.number + 1):
        _raw(work, {"kind": "connect", "id": number, "url": work.inputs.urls[0], "seconds": 60})
    time.sleep(600)
    return {}


def _say(said: dict[str, Any]) -> Callable[[Work[Inputs]], Data]:
    def execute(work: Work[Inputs]) -> Data:
        work.meter.charge(0)
        _raw(work, said)
        time.sleep(600)
        return {}

    return execute


def _raw(work: Work[Inputs], said: dict[str, Any]) -> None:
    text = json.dumps(said).encode()
    outbound: Any = work.outbound
    outbound._process.connection.sendall(wire._HEAD.pack(b"DPPb", len(text), 0) + text)


def _family(work: Work[Inputs]) -> Data:
    """A child, and a grandchild whose parent is gone. Each has the key in its command line: their numbers mean nothing
    outside."""
    work.meter.charge(0)
    command = [sys.executable, "-I", "-c", "import time; time.sleep(600)", work.inputs.key]
    subprocess.Popen(command)
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, str(subprocess.Popen(command).pid).encode())
        os._exit(0)
    return {"orphan": int(os.read(reading, 16))}


def _family_then_busy(work: Work[Inputs]) -> Data:
    work.log("family", **_family(work))
    while True:
        time.sleep(1)


def _exit(work: Work[Inputs]) -> NoReturn:
    work.meter.charge(700, tokens=2)
    os._exit(work.inputs.number)


def _sys_exit(_work: Work[Inputs]) -> NoReturn:
    sys.exit(3)


def _segfault(_work: Work[Inputs]) -> Any:
    return ctypes.string_at(1)


def _abort(_work: Work[Inputs]) -> NoReturn:
    os.abort()


def _hoard(_work: Work[Inputs]) -> Data:
    held = []
    while True:
        held.append(bytearray(MEBIBYTE))


def _hoard_and_swallow(work: Work[Inputs]) -> Data:
    """Refused memory again and again, it never ends by itself."""
    held = []
    while True:
        with contextlib.suppress(MemoryError):
            held.append(bytearray(MEBIBYTE))
        time.sleep(0.0001 if work.seconds_left() else 0)


def _hoard_natively(_work: Work[Inputs]) -> NoReturn:
    """As a C++ library does: it asks, is refused, and aborts."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    while (block := libc.malloc(ctypes.c_size_t(MEBIBYTE))) is not None:
        ctypes.memset(block, 1, MEBIBYTE)
    os.abort()


def _hoard_in_children(_work: Work[Inputs]) -> Data:
    """Each stays within its own limit; together they do not."""
    for _ in range(6):
        if os.fork() == 0:
            held = bytearray(SMALL // 3)
            held[:] = b"\1" * len(held)
            time.sleep(600)
    while True:
        time.sleep(1)


def _many_processes(_work: Work[Inputs]) -> Data:
    for _ in range(400):
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)
    while True:
        time.sleep(1)


def _threads(_work: Work[Inputs]) -> Data:
    for _ in range(100_000):
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    return {}


def _swallow_all(work: Work[Inputs]) -> Data:
    work.meter.charge(987)
    while True:
        with contextlib.suppress(BaseException):
            while True:
                time.sleep(0.01)


def _deaf(_work: Work[Inputs]) -> Data:
    """Every signal that can be refused is."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    while True:
        pass


def _backtrack(_work: Work[Inputs]) -> Data:
    """The interpreter is inside one C call for longer than anyone waits."""
    return {"found": bool(re.match(r"(a|a)*$", "a" * 64 + "b"))}


def _hash(_work: Work[Inputs]) -> Data:
    return {"hash": hashlib.pbkdf2_hmac("sha256", b"a", b"b", 2_000_000_000).hex()}


def _too_much(work: Work[Inputs]) -> Data:
    work.meter.charge(0)
    return {"text": "x" * (40 * MEBIBYTE)}


def _own_socket() -> int:
    return next(number for number in range(3, 64) if _is_socket(number))


def _is_socket(number: int) -> bool:
    try:
        return str(Path(f"/proc/self/fd/{number}").readlink()).startswith("socket:")
    except OSError:
        return False


def _garbage(_work: Work[Inputs]) -> Data:
    os.write(_own_socket(), b"\0\1\2 this is no frame, and longer than a head")
    time.sleep(600)
    return {}


def _garbage_in_frame(_work: Work[Inputs]) -> Data:
    os.write(_own_socket(), b"DPPb\0\0\0\x05\0\0\0\0[1,2]")
    time.sleep(600)
    return {}


def _frame(text: str, content: bytes = b"") -> bytes:
    """As `wire` would never write it."""
    return struct.pack("!4sII", b"DPPb", len(text.encode()), len(content)) + text.encode() + content


DONE = '{"kind":"charge","spent_micros":0,"tokens":0}'


def _says(work: Work[Inputs]) -> Data:
    """Its own words, past what the box's side checks: `key` is the last frame."""
    os.write(_own_socket(), _frame(DONE) + _frame(work.inputs.key))
    os._exit(0)


def _fetch_and_not_read(work: Work[Inputs]) -> Data:
    """Asks again and again for the same file, and takes none of them."""
    ask = _frame('{"kind":"fetch","key":"x"}')
    for _ in range(10_000):
        os.write(_own_socket(), ask)
    time.sleep(600)
    return {}


def _flood(_work: Work[Inputs]) -> Data:
    while True:
        os.write(_own_socket(), wire.encode_frame({"kind": "log", "event": "x", "values": {}}, b"\0" * MEBIBYTE))


def _babble(work: Work[Inputs]) -> Data:
    """As many small frames as its worker takes, and then its answer."""
    said = _frame(work.inputs.key) * 1_000
    for _ in range(work.inputs.number // 1_000):
        at = 0
        while at < len(said):
            at += os.write(_own_socket(), said[at:])
    work.meter.charge(0)
    return {}


def _noise(work: Work[Inputs]) -> Data:
    work.meter.charge(0)
    for _ in range(100):
        sys.stdout.write("noise " * 10_000)
        os.write(2, b"noise " * 10_000)
    return {"said": True}


def _fork_and_return(work: Work[Inputs]) -> Data:
    work.meter.charge(0)
    return {"child": os.fork() == 0}


def _past_the_hold(work: Work[Inputs]) -> Data:
    work.meter.charge(900)
    work.meter.charge(200)
    return {}


def _leave_files(work: Work[Inputs]) -> Data:
    work.meter.charge(0)
    Path("left-behind").write_text("x", encoding="ascii")
    return {"cwd": str(Path.cwd())}


def _huge_file(_work: Work[Inputs]) -> Data:
    with Path("huge").open("wb") as huge:
        huge.truncate(1_000 * MEBIBYTE)
    return {}


def _fetch(work: Work[Inputs]) -> Data:
    content = work.fetch_upload(work.inputs.key)
    work.meter.charge(10)
    return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _whole(work: Work[Inputs]) -> Data:
    """Everything that a good pack does."""
    work.log("working", step=1, name="x")
    work.meter.charge(400, tokens=11)
    work.discard_log.append({"url": "a", "reason": "TIMEOUT"})
    work.blocked_log.append({"url": "b", "reason": "LOOPBACK"})
    work.add_artifact("page.md", b"# \x00 page" * 1000, "text/markdown")
    work.reliability = 0.75
    work.meter.charge(200, tokens=4)
    return {"wanted": dict(work.artifacts_wanted), "left": work.meter.left_micros, "number": work.inputs.number}


def _refuse(_work: Work[Inputs]) -> Data:
    raise PackFailed("This cannot be read.")


def _raise(_work: Work[Inputs]) -> Data:
    raise ValueError("canary: the caller's own words")


def _not_json(work: Work[Inputs]) -> Data:
    work.meter.charge(0)
    return {"score": math.nan}


def _too_deep(work: Work[Inputs]) -> Data:
    work.meter.charge(0)
    data: Data = {}
    for _ in range(200_000):
        data = {"in": data}
    return data


def _free(work: Work[Inputs]) -> Data:
    work.meter.charge(0)
    return {}


def _unpaid(_work: Work[Inputs]) -> Data:
    return {"answer": 42}


def _read_environment(work: Work[Inputs]) -> Data:
    work.meter.charge(0)
    return {"key": os.environ.get("ENGINE_KEY")}


def _stream(work: Work[Inputs]) -> Data:
    work.meter.charge(0)
    for at in range(work.inputs.number):
        work.log("frame", at=at)
    return {}


PLANTED = "planted-by-a-run"
_planted: list[str] = []


def _what_is_planted() -> list[JsonValue]:
    """Of an earlier run, by the kind of place."""
    places = {
        "global": bool(_planted),
        "module": PLANTED in sys.modules,
        "library": hasattr(json, PLANTED),
        "handler": signal.getsignal(signal.SIGUSR1) is not signal.SIG_DFL,
        "thread": any(thread.name == PLANTED for thread in threading.enumerate()),
        "variable": PLANTED in os.environ,
        "file": Path(PLANTED).exists(),
        "temporary file": (Path(tempfile.gettempdir()) / PLANTED).exists(),
        "open file": any(PLANTED in str(one.readlink()) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()),
        "random numbers": random.getstate() == random.Random(PLANTED).getstate(),  # noqa: S311  whether it repeats
    }
    return [name for name, is_there in places.items() if is_there]


def _plant(work: Work[Inputs]) -> Data:
    """Leaves something wherever a process keeps anything; `number` more times, in the same one."""
    work.meter.charge(0)
    found = _what_is_planted()
    _planted.append(PLANTED)
    sys.modules[PLANTED] = json
    setattr(json, PLANTED, PLANTED)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    threading.Thread(target=time.sleep, args=(60,), name=PLANTED, daemon=True).start()
    os.environ[PLANTED] = work.inputs.key
    for folder in (Path.cwd(), Path(tempfile.gettempdir())):
        with contextlib.suppress(OSError):
            _kept.append((folder / PLANTED).open("w", encoding="ascii"))
    random.seed(PLANTED)
    return {"found": found, "then": _what_is_planted()}


_kept: list[Any] = []


LOOK_AROUND = nasty(_look_around)
HOW_IT_STANDS = nasty(_how_it_stands)
NO_NETWORK = nasty(_no_network)
ANYWHERE = Reach(rules=Rules())
CONNECT_TO = nasty(_connect_to, reach=lambda _environ: ANYWHERE)
CONNECT_NOWHERE = nasty(_connect_to)
REDIAL = nasty(_redial, reach=lambda _environ: ANYWHERE)
HOARD_CONNECTIONS = nasty(_hoard_connections, reach=lambda _environ: ANYWHERE)
_CALL = {"kind": "connect", "id": 1, "url": "https://good.example/", "seconds": 1}
CALL_FOR_EVER = nasty(_say(_CALL | {"seconds": float("nan")}), reach=lambda _environ: ANYWHERE)
CALL_FOR_NO_TIME = nasty(_say(_CALL | {"seconds": 0}), reach=lambda _environ: ANYWHERE)
CALL_WITHOUT_URL = nasty(_say(_CALL | {"url": None}), reach=lambda _environ: ANYWHERE)
CALL_ENGINE = nasty(_say({"kind": "ask", "id": 1, "seconds": 1}), reach=lambda _environ: ANYWHERE)
CLOSE_UNOPENED = nasty(_say({"kind": "closed", "id": 1}), reach=lambda _environ: ANYWHERE)
FAMILY = nasty(_family)
FAMILY_THEN_BUSY = nasty(_family_then_busy)
EXIT = nasty(_exit)
SYS_EXIT = nasty(_sys_exit)
SEGFAULT = nasty(_segfault)
ABORT = nasty(_abort)
HOARD = nasty(_hoard, memory_bytes=SMALL)
HOARD_AND_SWALLOW = nasty(_hoard_and_swallow, memory_bytes=SMALL)
HOARD_NATIVELY = nasty(_hoard_natively, memory_bytes=SMALL)
HOARD_IN_CHILDREN = nasty(_hoard_in_children, memory_bytes=SMALL)
MANY_PROCESSES = nasty(_many_processes)
THREADS = nasty(_threads, memory_bytes=SMALL)
SWALLOW_ALL = nasty(_swallow_all)
DEAF = nasty(_deaf)
BACKTRACK = nasty(_backtrack)
HASH = nasty(_hash)
TOO_MUCH = nasty(_too_much)
GARBAGE = nasty(_garbage)
GARBAGE_IN_FRAME = nasty(_garbage_in_frame)
BABBLE = nasty(_babble)
FLOOD = nasty(_flood)
SAYS = nasty(_says)
FETCH_AND_NOT_READ = nasty(_fetch_and_not_read)
NOISE = nasty(_noise)
FORK_AND_RETURN = nasty(_fork_and_return)
PAST_THE_HOLD = nasty(_past_the_hold)
LEAVE_FILES = nasty(_leave_files)
HUGE_FILE = nasty(_huge_file)
FETCH = nasty(_fetch)
WHOLE = nasty(_whole)
REFUSE = nasty(_refuse)
RAISE = nasty(_raise)
NOT_JSON = nasty(_not_json)
TOO_DEEP = nasty(_too_deep)
FREE = nasty(_free)
UNPAID = nasty(_unpaid)
READ_ENVIRONMENT = nasty(_read_environment)
MISSING = nasty(_free, missing=lambda: ["tessdata kor (apt install tesseract-ocr-kor)"])
NOT_A_DICT = nasty(lambda _work: [1])
STREAM = nasty(_stream)
PLANT = nasty(_plant)
