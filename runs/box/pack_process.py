"""One run of one pack, from the fork to its end: what happens inside the box.

The process talks to its worker over one socket: it reads its request, tells what it charges and logs as it goes, and
ends with `done` or `failed`. It ends by leaving, not by returning: no exit handler of a library runs, and no thread or
child is waited for (the zygote sweeps).
"""

import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pydantic import JsonValue, ValidationError

from dpp_project.processes import parent_death
from dpp_project.processes.process_tree import MemoryUse
from runs.box import kernel, namespaces, wire
from runs.box import limits as box_limits
from runs.box.limits import Limits
from runs.box.sealing import Seal
from runs.packs.pack import (
    Artifact,
    CommandResult,
    EngineUnavailable,
    HoldExhausted,
    Meter,
    Pack,
    PackFailed,
    Work,
)

if TYPE_CHECKING:
    from dpp_project.outbound.exchanging import OutboundAnswer
    from runs.box.worker_calls import WorkerCalls

FRAMES_LOGGED = 12
TELL_SECONDS = 0.2
SENT_NOTHING = 71
"""Exit code of a pack process that could not tell how it ended."""
_SEED_BYTES = 32


def start_pack_process(
    connection: socket.socket, limits: Limits, *, seal: Seal, own: MemoryUse, scratch: Path, forget: Callable[[], None]
) -> int:
    """The pid of a new pack process. Every one begins here, and nowhere else is a process made for a run.

    `own` is what the zygote's memory is. `forget` lets go of what is the zygote's, in the new process.
    """
    zygote = None if seal.apart else os.pidfd_open(os.getpid())
    try:
        pid = kernel.fork(seal.clone)
        if pid == 0:
            try:
                forget()
                _main(connection, limits, seal=seal, own=own, zygote=zygote, scratch=scratch)
            finally:
                os._exit(SENT_NOTHING)
    finally:
        if zygote is not None:
            os.close(zygote)
    return pid


def _main(
    connection: socket.socket, limits: Limits, *, seal: Seal, own: MemoryUse, zygote: int | None, scratch: Path
) -> NoReturn:
    """Seal this process, then do what the worker asks."""
    os.setsid()
    for number in (signal.SIGALRM, signal.SIGCHLD, signal.SIGXCPU, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    if zygote is None:
        kernel.end_on(namespaces.SPARED)
    else:
        parent_death.die_with_parent(held=zygote)
        parent_death.adopt_orphans()  # a child whose parent died stays in this tree while the pack works
        os.close(zygote)
    connection.set_inheritable(False)
    connection.setblocking(True)
    try:
        seal.enter()
        _silence()
        scratch.mkdir(mode=0o700)
        os.chdir(scratch)
        os.environ["TMPDIR"] = str(scratch)
        if seal.apart:
            _forget_randomness()
        process = PackProcess(connection)
        request = wire.receive_frame(connection).document
        box_limits.impose_limits(limits, own)
        seal.shut(scratch)
        process.do(request, deadline=limits.deadline)
    except (OSError, EOFError):
        os._exit(SENT_NOTHING)  # the worker is gone, or ended us; or a layer that was there is refused now
    os._exit(0)


def _forget_randomness() -> None:
    """OpenSSL tells a fork by its new process number, and each job of a zygote has the number 1, as that has."""
    if (ssl := sys.modules.get("_ssl")) is not None:
        ssl.RAND_add(os.urandom(_SEED_BYTES), float(_SEED_BYTES))


def prepare_randomness() -> None:
    """In a zygote: its generators are made here once. Each job that had to make its own paid a millisecond for them."""
    if (ssl := sys.modules.get("_ssl")) is not None:
        ssl.RAND_bytes(1)
        _forget_randomness()


def _silence() -> None:
    """What a pack prints may quote its inputs, and belongs nowhere."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    os.close(nowhere)


class PackProcess:
    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._pid = os.getpid()
        self._telling = _Telling(self.send)

    def send(self, document: dict[str, Any], content: bytes = b"") -> None:
        if os.getpid() != self._pid:
            os._exit(SENT_NOTHING)  # a child that a pack forked, and that came back up to here
        self.connection.sendall(wire.encode_frame(document, content))

    def do(self, request: Mapping[str, Any], *, deadline: float) -> None:
        try:
            os.environ.update(request["environment"])
            pack = load_pack(request["module"], request["attribute"])
            work = self._work(pack, request, deadline)
            data = pack.execute(work)
            self._telling.flush()
            self._answer(work, data)
        except PackFailed as error:
            self._failed("PACK_FAILED", error.detail)
        except HoldExhausted:
            self._failed("PACK_FAILED", "The next step would have cost more than was held.")
        except EngineUnavailable as error:
            self._failed("ENGINE_UNAVAILABLE", error.detail)
        except MemoryError as error:
            traceback.clear_frames(error.__traceback__)  # what the pack held is needed to say that it failed
            self._failed("PACK_MEMORY_EXCEEDED", "")
        except (SystemExit, KeyboardInterrupt) as error:
            self._failed("PACK_CRASHED", f"The pack left its process ({type(error).__name__}).")
        except Exception as error:  # noqa: BLE001  whatever a pack raises is an end of its run
            self._failed("PACK_FAILED", f"The pack stopped on a {type(error).__name__}.", error)

    def _work(self, pack: Pack[Any], request: Mapping[str, Any], deadline: float) -> Work[Any]:
        try:
            inputs = pack.inputs.model_validate(request["inputs"])
        except ValidationError:
            raise PackFailed("The inputs do not fit the pack's schema any more.") from None
        outside = _Outbound(self)
        return Work(
            run_id=request["run_id"],
            inputs=inputs,
            artifacts_wanted=request["artifacts_wanted"],
            deadline=deadline,
            meter=Meter(ceiling_micros=request["ceiling_micros"], on_charge=self._charged),
            prices=pack.price_list(request["price_version"]),
            fetch_upload=self._fetch_upload,
            outbound=outside,
            commands=outside,
            log=self._log,
            tell=self._telling.tell,
        )

    def _charged(self, meter: Meter) -> None:
        """Told before the work behind it is done, so that the cost is known however this process ends."""
        self.send({"kind": "charge", "spent_micros": meter.spent_micros, "tokens": meter.tokens})

    def _log(self, event: str, **values: JsonValue) -> None:
        self.send(
            {
                "kind": "log",
                "event": event,
                "values": {name: _loggable_pack_value(value) for name, value in values.items()},
            }
        )

    def _fetch_upload(self, key: str) -> bytes:
        self.send({"kind": "fetch", "key": key})
        frame = wire.receive_frame(self.connection)
        match frame.document:
            case {"refused": "PACK_FAILED", "detail": detail}:
                raise PackFailed(detail)
            case {"refused": _, "detail": detail}:
                raise EngineUnavailable(detail)
        return frame.content

    def _answer(self, work: Work[Any], data: dict[str, JsonValue]) -> None:
        if not isinstance(data, dict):
            raise TypeError("a pack answers a dict")
        answer = {
            "kind": "done",
            "data": data,
            "discard_log": work.discard_log,
            "blocked_log": work.blocked_log,
            "reliability": work.reliability,
        }
        encoded = wire.encode_frame(answer)
        total = len(encoded) + sum(len(artifact.content) for artifact in work.artifacts)
        if total > wire.ANSWER_BYTES_MAX * 9 // 10:
            raise PackFailed("The result is larger than a run may answer.")
        for artifact in work.artifacts:
            self._artifact(artifact)
        self.send(answer)

    def _artifact(self, artifact: Artifact) -> None:
        about = {"kind": "artifact", "name": artifact.name, "content_type": artifact.content_type}
        self.send(about, bytes(artifact.content))

    def _failed(self, reason: str, detail: str, error: Exception | None = None) -> None:
        """The class and the places of an error, never its message: it may quote the inputs."""
        if error is not None:
            found = traceback.extract_tb(error.__traceback__)[-FRAMES_LOGGED:]
            frames: list[JsonValue] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in found]
            self._log("pack stopped on an exception", exception=type(error).__name__, frames=frames)
        self.send({"kind": "failed", "reason": reason, "detail": detail})


class _Telling:
    """What the pack says of its progress. What comes too soon after a frame goes with the next one, or the answer."""

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        self._send = send
        self._waiting: dict[str, Any] = {}
        self._sent_at = float("-inf")

    def tell(self, *, percent: float | None = None, note: str | None = None, line: str | None = None) -> None:
        said = {"percent": percent, "note": note, "line": line}
        self._waiting |= {name: value for name, value in said.items() if value is not None and name != "line"}
        if line:
            self._waiting["line"] = (self._waiting.get("line", "") + line)[-wire.PROGRESS_LINE_MAX :]
        if time.monotonic() - self._sent_at >= TELL_SECONDS:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            self._send({"kind": "progress", **self._waiting})
            self._waiting = {}
            self._sent_at = time.monotonic()


class _Outbound:
    """Loads what speaks for the job to its worker when it is first asked for: most packs never do."""

    def __init__(self, process: PackProcess) -> None:
        self._process = process

    @cached_property
    def _calls(self) -> "WorkerCalls":
        from runs.box.worker_calls import WorkerCalls  # where a pack has a reach, its zygote has it loaded

        return WorkerCalls(self._process.connection, self._process.send)

    def connection(self, url: str, *, seconds: float) -> AbstractAsyncContextManager[socket.socket]:
        return self._calls.connection(url, seconds=seconds)

    async def ask(self, body: bytes, *, seconds: float) -> "OutboundAnswer":
        return await self._calls.ask(body, seconds=seconds)

    async def command(self, *, seconds: float) -> CommandResult:
        return await self._calls.command(seconds=seconds)

    def stop_command(self) -> None:
        self._calls.stop_command()


def load_pack(module: str, attribute: str) -> Pack[Any]:
    try:
        pack: Pack[Any] = getattr(import_module(module), attribute)
    except ImportError as error:
        raise EngineUnavailable(f"The pack cannot be loaded: {error.name or type(error).__name__}") from error
    if missing := pack.missing():
        raise EngineUnavailable("Not installed: " + "; ".join(missing))
    return pack


def _loggable_pack_value(value: JsonValue) -> JsonValue:
    return value if isinstance(value, bool | int | float | str | list | None) else str(value)[:200]
