"""The host's side of the init's socket (ops/workspaces/init/pid1.py): one connection, one request."""

import contextlib
import select
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from ops.workspaces.drivers.base import (
    DriverError,
    DriverNoSpace,
    DriverRefused,
    DriverUnavailable,
    ExecEnd,
    ExecRequest,
    ExecResult,
)
from ops.workspaces.init.pid1 import STDIN_BYTES_MAX, pack_frame, unpack_init_header

Connect = Callable[[float], socket.socket]
"""Opens the control socket, within so many seconds. Raises OSError."""

_UNAVAILABLE: Final = frozenset({"Stopping", "TooManyExecs", "BadRequest"})


class InitClient:
    def __init__(self, connect: Connect, *, answer_seconds: float) -> None:
        self._connect = connect
        self._answer_seconds = answer_seconds

    def ping(self, seconds: float) -> Mapping[str, Any]:
        return self._ask({"verb": "ping"}, seconds=seconds)[0]

    def shutdown(self, grace_seconds: float, *, seconds: float) -> None:
        self._ask({"verb": "shutdown", "grace_seconds": grace_seconds}, seconds=seconds)

    def logs(self, offset: int, count: int) -> tuple[bytes, int]:
        header, content = self._ask({"verb": "logs", "offset": offset, "count": count})
        return content, header["begin"]

    def put_file(self, path: str, content: bytes) -> None:
        self._ask({"verb": "put", "path": path}, content)

    def exec_start(self, request: ExecRequest) -> "SocketExec":
        """Returns when it has begun. DriverUnavailable leaves open whether it did: its id is then used."""
        if len(request.stdin) > STDIN_BYTES_MAX:
            raise DriverRefused(f"stdin has at most {STDIN_BYTES_MAX} bytes", reason="StdinTooLong")
        answers = self._open(
            {
                "verb": "exec",
                "exec_id": request.exec_id,
                "argv": list(request.argv),
                "environment": dict(request.environment),
                "folder": request.working_directory,
                "deadline_seconds": request.deadline_seconds,
                "output_bytes_max": request.output_bytes_max,
            },
            request.stdin,
            self._answer_seconds,
        )
        try:
            _init_frame_unless_error(answers.next(self._answer_seconds))
        except BaseException:
            answers.close()
            raise
        late = request.deadline_seconds + self._answer_seconds
        return SocketExec(answers, lambda: self._stop_exec(request.exec_id), end=time.monotonic() + late)

    def connect_port(self, port: int) -> socket.socket:
        answers = self._open({"verb": "connect", "port": port}, b"", self._answer_seconds)
        with contextlib.closing(answers):
            header, _ = _init_frame_unless_error(answers.next(self._answer_seconds))
            if not answers.descriptors:
                raise DriverUnavailable(f"the init answered {header}, and gave no connection")
            return socket.socket(fileno=answers.descriptors.pop())

    def _stop_exec(self, exec_id: str) -> None:
        self._ask({"verb": "stop_exec", "exec_id": exec_id})

    def _ask(
        self, header: dict[str, Any], body: bytes = b"", *, seconds: float | None = None
    ) -> tuple[dict[str, Any], bytes]:
        within = self._answer_seconds if seconds is None else seconds
        with contextlib.closing(self._open(header, body, within)) as answers:
            return _init_frame_unless_error(answers.next(within))

    def _open(self, header: dict[str, Any], body: bytes, seconds: float) -> "_Answers":
        try:
            stream = self._connect(seconds)
        except OSError as fault:
            raise DriverUnavailable(f"the init cannot be reached: {fault}") from fault
        try:
            stream.settimeout(seconds)
            stream.sendall(pack_frame(header, body))
        except OSError as fault:
            stream.close()
            raise DriverUnavailable(f"the init does not take a request: {fault}") from fault
        return _Answers(stream)


class _BrokenOff(DriverUnavailable):
    """The init is no more: it alone closes a connection that it has not answered to the end."""


class _Answers:
    """Frames as they come. A frame that is not whole yet stays for the next call."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self._received = bytearray()
        self.descriptors: list[int] = []

    def next(self, seconds: float | None) -> tuple[dict[str, Any], bytes] | None:
        """None: not in this time."""
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            if (found := self._whole()) is not None:
                return found
            wait = None if end is None else end - time.monotonic()
            if wait is not None and wait < 0:
                return None
            poll = select.poll()
            poll.register(self._stream, select.POLLIN)
            if poll.poll(None if wait is None else wait * 1_000):
                self._receive()

    def _whole(self) -> tuple[dict[str, Any], bytes] | None:
        found = unpack_init_header(self._received)
        if found is None:
            return None
        header, begin = found
        end = begin + header["body"]
        if len(self._received) < end:
            return None
        body = bytes(self._received[begin:end])
        del self._received[:end]
        return header, body

    def _receive(self) -> None:
        try:
            piece, descriptors, _, _ = socket.recv_fds(self._stream, 1 << 20, 1)
        except OSError as fault:
            raise _BrokenOff(f"the init broke off: {fault}") from fault
        self.descriptors += descriptors
        if not piece:
            raise _BrokenOff("the init broke off")
        self._received += piece

    def close(self) -> None:
        self._stream.close()


class SocketExec:
    """A RunningExec.

    One whose init has gone was killed with it, and that is no fault: a tenant can bring it about, by a command that
    does not heed the stop of its workspace or by filling its memory, and would have back what it has used.
    """

    def __init__(self, answers: _Answers, stop: Callable[[], None], *, end: float) -> None:
        self._answers = answers
        self._stop = stop
        self._begun = time.monotonic()
        self._end = end
        self._result: ExecResult | None = None

    def wait(self, timeout: float | None = None) -> ExecResult | None:
        if self._result is None:
            left = max(self._end - time.monotonic(), 0)
            try:
                frame = self._answers.next(left if timeout is None else min(timeout, left))
            except _BrokenOff:
                self._answers.close()
                self._result = self._killed()
                return self._result
            if frame is None and time.monotonic() >= self._end:
                raise DriverUnavailable("the init does not say how this ended, long after its deadline")
            if frame is None:
                return None
            self._answers.close()
            header, body = frame
            cut = header["stdout_bytes"]
            self._result = ExecResult(
                end=ExecEnd(header["end"]),
                exit_code=header["exit_code"],
                stdout=body[:cut],
                stderr=body[cut:],
                stdout_cut=header["stdout_cut"],
                stderr_cut=header["stderr_cut"],
                seconds=header["seconds"],
            )
        return self._result

    def _killed(self) -> ExecResult:
        return ExecResult(
            end=ExecEnd.KILLED,
            exit_code=None,
            stdout=b"",
            stderr=b"",
            stdout_cut=True,
            stderr_cut=True,
            seconds=time.monotonic() - self._begun,
        )

    def stop(self) -> None:
        if self._result is None:
            self._stop()

    def close(self) -> None:
        self._answers.close()


def _init_frame_unless_error(frame: tuple[dict[str, Any], bytes] | None) -> tuple[dict[str, Any], bytes]:
    if frame is None:
        raise DriverUnavailable("the init does not answer")
    header, _ = frame
    reason = header.get("error")
    if reason is None:
        return frame
    kind: type[DriverError] = DriverRefused
    if reason == "NoSpace":
        kind = DriverNoSpace
    elif reason in _UNAVAILABLE:
        kind = DriverUnavailable
    raise kind(header["text"], reason=reason)
