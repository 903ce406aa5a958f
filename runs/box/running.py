"""One run in the box, as its worker sees it: a conversation with the pack process, and reports from the zygote."""

import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from pydantic import JsonValue

from dpp_project.processes import pidfd
from dpp_project.reasons import ReasonCode
from runs.box import claimed, wire
from runs.box.broker import Broker, Service
from runs.box.launch import BoxBroken, Nursery, ZygoteEnd
from runs.box.limits import Limits
from runs.box.outcomes import Evidence, Failed, Fault, PackOutcome, decide_outcome
from runs.box.outgoing import Outgoing
from runs.packs.pack import ARTIFACTS_MAX, Artifact, EngineUnavailable, PackFailed, Reach

GRACE_SECONDS: Final = 1.0
"""How long after its deadline, or after stop(), the zygote may take before this side kills, and then gives it up."""
CHUNK: Final = 262_144
FETCHES_MAX: Final = 200
"""More than the pages of one run. Each costs the worker a request to the bucket."""
FRAMES_MAX: Final = 10_000
"""Ten times what the longest job of ours says. Each costs the worker's threads, which all its runs share."""
LOG_BYTES_MAX: Final = 262_144
UNREAD_BYTES_MAX: Final = 65_536
SOON_SECONDS: Final = 0.2
_READABLE: Final = select.POLLIN | select.POLLHUP | select.POLLERR


class Log(Protocol):
    def __call__(self, event: str, /, **values: JsonValue) -> None: ...


class Tell(Protocol):
    """In the thread that waits for the pack: it may not wait for anything."""

    def __call__(self, said: dict[str, Any], /, *, spent_micros: int) -> None: ...


def tell_nobody(_said: dict[str, Any], /, *, spent_micros: int) -> None:
    del spent_micros


FetchUpload = Callable[[str], bytes]
"""The tenant's own upload by its key. Raises PackFailed for one that is refused, EngineUnavailable for a lost store."""


@dataclass(frozen=True, kw_only=True)
class PackRequest:
    """What a run asks of the box. Of the environment the pack sees `environment`, and nothing else."""

    run_id: str
    module: str
    inputs: Mapping[str, Any]
    timebox_seconds: float
    ceiling_micros: int
    memory_bytes: int
    caller: str = ""
    """Its tenant, whom what it asks of the world is counted to."""
    lacks: Sequence[str] = ()
    """What the worker is missing for it: then it is not begun."""
    reach: Reach | None = None
    artifacts_wanted: Mapping[str, bool] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    attribute: str = "PACK"
    price_version: str | None = None
    """Of the list that its charges go by; None for the newest."""

    def request(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "module": self.module,
            "attribute": self.attribute,
            "inputs": dict(self.inputs),
            "artifacts_wanted": dict(self.artifacts_wanted),
            "environment": dict(self.environment),
            "ceiling_micros": self.ceiling_micros,
            "price_version": self.price_version,
        }


class Zygotes(Protocol):
    """What a run needs of its box."""

    broker: Broker

    def ready(self, module: str) -> tuple[Nursery, ZygoteEnd]: ...
    def discard(self, nursery: Nursery) -> None: ...


class RunningPack:
    """`wait` belongs to one thread; `stop` may come from any, at any time."""

    def __init__(
        self, zygotes: Zygotes, job: PackRequest, *, fetch_upload: FetchUpload, log: Log, tell: Tell = tell_nobody
    ) -> None:
        self._zygotes = zygotes
        self._job = job
        self._fetch_upload = fetch_upload
        self._log = log
        self._tell = tell
        self._stopping = threading.Lock()
        self._stopped_at: float | None = None
        self._attempt: _Attempt | None = None

    def wait(self) -> PackOutcome:
        """Run the pack to its end. A zygote that died before the pack began is replaced once."""
        if self._job.lacks:
            detail = "Not installed: " + "; ".join(self._job.lacks)
            return Failed(reason=ReasonCode.ENGINE_UNAVAILABLE, detail=detail)
        found = Evidence(memory_bytes=self._job.memory_bytes, ceiling_micros=self._job.ceiling_micros)
        for _ in range(2):
            try:
                nursery, zygote = self._zygotes.ready(self._job.module)
                attempt = _Attempt(
                    zygote,
                    self._job,
                    found,
                    broker=self._zygotes.broker,
                    fetch_upload=self._fetch_upload,
                    log=self._log,
                    tell=self._tell,
                )
            except (BoxBroken, OSError) as error:
                found.not_started = type(error).__name__
                break
            with self._stopping:
                if self._stopped_at is not None:
                    attempt.stop()
                self._attempt = attempt
            try:
                attempt.follow()
            finally:
                with self._stopping:
                    self._attempt = None
                attempt.close()
            if attempt.zygote_lost:
                self._zygotes.discard(nursery)
            if attempt.began or not attempt.zygote_lost:
                break
        else:
            found.not_started = "ZygoteLost"
        found.stopped = self._stopped_at is not None
        return decide_outcome(found)

    def stop(self) -> None:
        """End the pack, hard. The zygote does it; `wait` answers Stopped when it is done."""
        with self._stopping:
            if self._stopped_at is None:
                self._stopped_at = time.monotonic()
            if self._attempt is not None:
                self._attempt.stop()


class _Attempt:
    def __init__(
        self,
        zygote: ZygoteEnd,
        job: PackRequest,
        found: Evidence,
        *,
        broker: Broker,
        fetch_upload: FetchUpload,
        log: Log,
        tell: Tell,
    ) -> None:
        self._job = job
        self._found = found
        self._fetch_upload = fetch_upload
        self._log = log
        self._tell = tell
        self.began = False
        self.zygote_lost = False
        self._process: int | None = None
        self._ended = False
        self._broker = broker
        self._service: Service | None = None
        self._bell: socket.socket | None = None
        self._poll = select.poll()
        self._outgoing = Outgoing()
        self._fetches = self._frames = self._log_bytes = 0
        self._answers = wire.FrameReader()
        self._reports = wire.FrameReader()
        deadline = time.monotonic() + job.timebox_seconds
        self._deadline = deadline
        self._kill_at = deadline + GRACE_SECONDS
        limits = Limits(deadline=deadline, memory_bytes=job.memory_bytes)
        self._connection, job_end = socket.socketpair()
        self._status, zygote_end = socket.socketpair()
        with job_end, zygote_end:
            self._status.sendall(wire.encode_frame(limits.document()))
            self._connection.setblocking(False)
            try:
                zygote.order(job_end, zygote_end)
            except OSError:
                self.zygote_lost = True

    def stop(self) -> None:
        """The end of our side of the status socket is the zygote's order."""
        self._kill_at = min(self._kill_at, time.monotonic() + GRACE_SECONDS)
        with contextlib.suppress(OSError):
            self._status.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        if self._service is not None:
            self._service.close()
        self._outgoing.close()
        if self._bell is not None:
            self._bell.close()
        if self._process is not None:
            os.close(self._process)
        self._connection.close()
        self._status.close()

    def follow(self) -> None:
        """Until the zygote says that the pack process and all its descendants are gone, or cannot say any more."""
        poll = self._poll
        poll.register(self._status, _READABLE)
        poll.register(self._connection, _READABLE)
        listening = True
        while not self._ended and not self.zygote_lost:
            if listening:
                poll.modify(self._connection, _READABLE | (select.POLLOUT if self._outgoing else 0))
            ready = dict(poll.poll(max(0.0, min(SOON_SECONDS, self._kill_at - time.monotonic())) * 1_000))
            if self._status.fileno() in ready:
                self._hear_zygote()
            if self._bell is not None and self._bell.fileno() in ready:
                self._bell.recv(CHUNK)  # it only ends the wait: what was added goes out next time
            if listening and (what := ready.get(self._connection.fileno())):
                listening = self._converse(what)
                if not listening:
                    poll.unregister(self._connection)
            self._see_to_the_end()
        while listening and self._ended:
            listening = self._read_some()

    def _see_to_the_end(self) -> None:
        """The zygote should have ended the process by now: kill from here, and if that is not reported, give it up."""
        if time.monotonic() < self._kill_at or self._ended:
            return
        late = time.monotonic() - self._kill_at
        if self._process is not None:
            pidfd.kill_held_process(self._process)
            self._found.why = self._found.why or "timebox"
        if late > GRACE_SECONDS:
            self.zygote_lost = True

    # The zygote

    def _hear_zygote(self) -> None:
        try:
            data, held, _, _ = socket.recv_fds(self._status, CHUNK, 1)
        except OSError:
            data, held = b"", []
        if held:
            (self._process,) = held
        if not data:
            self.zygote_lost = True
            if self._process is not None:
                pidfd.kill_held_process(self._process)  # it may have children that outlive both
            return
        for frame in self._reports.feed(data):
            match frame.document:
                case {"kind": "started"}:
                    # Only now the request: a pack whose start was not reported has not begun.
                    self.began = True
                    self._outgoing.add(wire.encode_frame(self._job.request()))
                case {"kind": "not started", "error": str(error)}:
                    self._found.not_started = error
                    self._ended = True
                case {"kind": "ended", "code": int(code), "why": why, "private_bytes": int(private)}:
                    self._found.code, self._found.private_bytes = code, private
                    self._found.why = self._found.why or why
                    self._ended = True

    # The pack process

    def _converse(self, what: int) -> bool:
        if what & select.POLLOUT and self._outgoing:
            self._outgoing.send(self._connection)
        return self._read_some() if what & _READABLE else True

    def _read_some(self) -> bool:
        """Whether there may be more."""
        try:
            data = self._connection.recv(CHUNK)
        except BlockingIOError:
            return not self._ended  # the pack process is dead: what is not here will never be
        except OSError:
            return False
        if not data:
            return False
        try:
            for frame in self._answers.feed(data):
                self._hear_job(frame)
        except wire.Oversized:
            self._give_up(Fault.OVERSIZED)
        except wire.Unfit:
            self._give_up(Fault.UNFIT)
        except (wire.Garbled, KeyError, TypeError, ValueError):
            self._give_up(Fault.GARBLED)
        else:
            return True
        return False

    def _give_up(self, fault: Fault) -> None:
        if self._found.answer is None:
            self._found.fault = fault
        self.stop()

    def _hear_job(self, frame: wire.Frame) -> None:
        found, said = self._found, frame.document
        self._frames += 1
        if self._frames > FRAMES_MAX:
            raise wire.Garbled
        if found.answer is not None:
            return  # nothing counts after the answer
        match said["kind"]:
            case "charge":
                found.spent_micros, found.tokens = claimed.claimed_cost(said)
                found.charged = True
            case "log" | "progress":
                self._hear_words(frame)
            case "fetch":
                self._fetch(str(said["key"]))
            case "connect" | "closed" | "ask" | "command" | "stop command":
                self._outside().hear(said, frame.content)
            case "artifact":
                self._take_artifact(claimed.claimed_artifact(said, frame.content))
            case "done" | "failed":
                found.answer = claimed.claimed_answer(said)
            case _:
                raise wire.Garbled

    def _hear_words(self, frame: wire.Frame) -> None:
        """For the log, or for the tenant: the latter's are bounded by their number, as all frames are."""
        said = frame.document
        if said["kind"] == "progress":
            self._tell(claimed.claimed_progress(said), spent_micros=self._found.spent_micros)
            return
        self._log_bytes += frame.text_bytes
        if self._log_bytes > LOG_BYTES_MAX:
            raise wire.Garbled
        self._log(str(said["event"])[:200], **said["values"])

    def _outside(self) -> Service:
        """Made when the job first asks for it: most never do."""
        if self._service is None:
            if self._job.reach is None:
                raise wire.Garbled
            self._bell = self._outgoing.bell()
            self._poll.register(self._bell, select.POLLIN)
            self._service = self._broker.serve(
                self._job.reach, caller=self._job.caller, deadline=self._deadline, outgoing=self._outgoing
            )
        return self._service

    def _take_artifact(self, one: Artifact) -> None:
        taken = self._found.artifacts
        if len(taken) >= ARTIFACTS_MAX or any(one.name == other.name for other in taken):
            raise wire.Garbled
        taken.append(one)

    def _fetch(self, key: str) -> None:
        """Not for a job that asks for more and has not taken what it asked for: it would lie in its worker's memory."""
        self._fetches += 1
        if self._fetches > FETCHES_MAX or self._outgoing.waiting_bytes() > UNREAD_BYTES_MAX:
            raise wire.Garbled
        self._outgoing.add(self._fetched(key))

    def _fetched(self, key: str) -> bytes:
        try:
            return wire.encode_frame({"kind": "upload"}, self._fetch_upload(key))
        except PackFailed as error:
            return wire.encode_frame({"refused": "PACK_FAILED", "detail": error.detail})
        except EngineUnavailable as error:
            return wire.encode_frame({"refused": "ENGINE_UNAVAILABLE", "detail": error.detail})
