"""Pid 1 of a workspace: starts its commands, holds their deadlines, kills their trees, and answers the host.

This one file runs inside, with the system's Python and the standard library alone; the host imports it for the framing
and for the ring of logs. One thread, one loop. It stays one file, long as it is: the drivers copy it into each
workspace, and nothing beside it.

The host. It connects to a unix socket that listens before we live: its descriptor is inherited, its path lies outside.
A process of the tenant has neither, cannot take the descriptor from us (we are not dumpable), and would be refused: the
peer's pid of a connection from outside our pid namespace reads as 0. One connection carries one request.

Birth. The host writes our config into a pipe only after it has recorded our pid. Where it died before, the pipe ends
without a config and so do we: there is no init without a record.

Trees. Each command has a keeper between us and it, a fork of this file and a subreaper: what the command leaves behind
stays below the keeper. When the keeper is dead, what it held comes to us, and a process whose way up to us leads
through no keeper is killed. A tenant that kills a keeper gains nothing but this.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import heapq
import itertools
import json
import os
import resource
import selectors
import signal
import socket
import struct
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

HEADER_BYTES_MAX = 4_000_000
STDIN_BYTES_MAX = 16_000_000
EXECS_MAX = 32
EXEC_IDS_KEPT = 100_000
CHUNK = 65_536
REQUEST_SECONDS = 30.0
CONFIG_SECONDS = 30.0
PIPE_CHUNKS_MAX = 17  # what a pipe of 1 MiB holds, and one
SWEEP_SECONDS = 0.005
SWEEP_GIVES_UP_SECONDS = 2.0
STATE_BYTES = 256
NICENESS = 10
DOUBLINGS_MAX = 16  # of the pause before a restart; a thousand of them are more than a float holds

_LENGTH = struct.Struct(">I")


def pack_frame(header: dict[str, Any], body: bytes = b"") -> bytes:
    """Length of the header, the header as JSON with the length of the body, the body."""
    text = json.dumps({**header, "body": len(body)}).encode()
    return _LENGTH.pack(len(text)) + text + body


def unpack_init_header(content: bytes | bytearray) -> tuple[dict[str, Any], int] | None:
    """The header and where the body begins; None: more is to come."""
    if len(content) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(content)
    if length > HEADER_BYTES_MAX:
        raise ValueError("a header is too long")
    end = _LENGTH.size + length
    if len(content) < end:
        return None
    header = json.loads(bytes(content[_LENGTH.size : end]))
    if not isinstance(header, dict) or not isinstance(header.get("body"), int):
        raise ValueError("a header is an object with the length of its body")
    return header, end


class LogRing:
    """The last bytes of a command's output, in a file of fixed size; offsets count all that was ever written.

    Magic, then the count, at 64 the bytes. The bytes are written before the count: what a reader saw is sound unless
    the writer was less than a chunk behind it, so a chunk of the file is never handed out.
    """

    MAGIC = b"DPPRING1"
    BEGIN = 64

    def __init__(self, fd: int, size: int = 0) -> None:
        self._fd = fd
        self._size = size or max(os.fstat(fd).st_size - self.BEGIN, 0)

    def create(self) -> None:
        os.ftruncate(self._fd, self.BEGIN + self._size)
        os.pwrite(self._fd, self.MAGIC + bytes(8), 0)

    def total(self) -> int:
        head = os.pread(self._fd, 16, 0)
        if head[:8] != self.MAGIC or self._size <= CHUNK:
            raise ValueError("this is no ring of logs")
        return int.from_bytes(head[8:], "little")

    def append(self, content: bytes) -> None:
        total = self.total()
        for begin in range(0, len(content), CHUNK):
            piece = content[begin : begin + CHUNK]
            at = total % self._size
            first = piece[: self._size - at]
            os.pwrite(self._fd, first, self.BEGIN + at)
            if len(first) < len(piece):
                os.pwrite(self._fd, piece[len(first) :], self.BEGIN)
            total += len(piece)
            os.pwrite(self._fd, total.to_bytes(8, "little"), 8)

    def read(self, offset: int, count: int) -> tuple[bytes, int]:
        """Bytes from the offset on, and the offset they really begin at: later, where older ones are gone."""
        kept = self._size - CHUNK
        total = self.total()
        begin = min(max(offset, total - kept, 0), total)
        end = min(begin + count, total)
        content = b""
        while begin + len(content) < end:
            at = (begin + len(content)) % self._size
            content += os.pread(self._fd, min(self._size - at, end - begin - len(content)), self.BEGIN + at)
        lost = max(self.total() - kept - begin, 0)
        return content[lost:], min(begin + lost, end)


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER = 4, 24, 36


class Config:
    """What the host says at our birth."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.command: list[str] = given["command"]
        self.environment: dict[str, str] = given["environment"]
        self.home: str = given["home"]
        self.run_as: tuple[int, int] | None = tuple(given["run_as"]) if given.get("run_as") else None
        self.rlimits: list[tuple[int, int]] = [(int(which), int(value)) for which, value in given["rlimits"]]
        self.crash_seconds = float(given.get("crash_seconds", 10.0))
        self.restart_seconds = float(given.get("restart_seconds", 1.0))
        self.restart_seconds_max = float(given.get("restart_seconds_max", 60.0))


class Started:
    """What to run: the same for the workspace's command and for an exec."""

    def __init__(self, config: Config, argv: list[str], environment: dict[str, str], folder: str | None) -> None:
        self.argv = argv
        self.environment = {**config.environment, **environment}
        self.folder, self.is_home = folder or config.home, folder is None
        self.rlimits = config.rlimits
        self.run_as = config.run_as

    def spawn(self, stdin: int, stdout: int, stderr: int) -> int:
        """Fork the keeper, which forks the command; the keeper's pid."""
        pid = os.fork()
        if pid == 0:
            try:
                self._keep(stdin, stdout, stderr)
            finally:
                os._exit(126)
        return pid

    def _keep(self, stdin: int, stdout: int, stderr: int) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        _prctl(PR_SET_CHILD_SUBREAPER, 1)
        try:
            command = os.fork()
        except OSError as fault:
            os.write(2, f"dpp: no process for this: {fault.strerror}\n".encode())
            os._exit(126)
        if command == 0:
            self._become()
        os.closerange(0, 3)  # or nobody would ever see the end of its output
        while True:
            ended, status = os.wait()
            if ended == command:
                os._exit(shell_code(status))

    def _become(self) -> None:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as output:
            output.write("500")  # the kernel takes the tenant's before us
        os.nice(NICENESS)  # and a core goes to us before it, however many they are
        try:
            for which, value in self.rlimits:
                resource.setrlimit(which, (value, value))
            if self.run_as is not None:
                with contextlib.suppress(OSError):  # the first that the kernel does not know
                    for capability in range(64):
                        _prctl(PR_CAPBSET_DROP, capability)
                os.setgroups([])
                os.setresgid(self.run_as[1], self.run_as[1], self.run_as[1])
                os.setresuid(self.run_as[0], self.run_as[0], self.run_as[0])
            self._enter()
            os.execvpe(self.argv[0], self.argv, self.environment)
        except (OSError, ValueError) as fault:
            os.write(2, f"dpp: {self.argv[0]}: {getattr(fault, 'strerror', None) or fault}\n".encode())
            os._exit(127 if getattr(fault, "errno", None) in (errno.ENOENT, errno.ENOTDIR) else 126)

    def _enter(self) -> None:
        """A tenant that closed its home to itself opens it again from elsewhere: nobody else would."""
        try:
            os.chdir(self.folder)
        except PermissionError:
            if not self.is_home:
                raise
            os.chdir("/")


def shell_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


class Pipe:
    """Output of a command, read to its end; kept up to a limit, or handed on."""

    def __init__(self, limit: int) -> None:
        self.content = bytearray()
        self.cut = False
        self.ended = False
        """Closed: its number may be another's by now."""
        self._limit = limit
        self.fd, self.given = os.pipe()
        os.set_blocking(self.fd, False)

    def read(self) -> bool:
        """Whether more may come."""
        try:
            piece = os.read(self.fd, CHUNK)
        except BlockingIOError:
            return True
        room = self._limit - len(self.content)
        self.cut = self.cut or len(piece) > room
        self.content += piece[:room]
        return bool(piece)


class Exec:
    def __init__(self, exec_id: str, connection: Connection, output_bytes_max: int) -> None:
        self.exec_id = exec_id
        self.connection = connection
        self.out, self.err = Pipe(output_bytes_max), Pipe(output_bytes_max)
        self.keeper = 0
        self.begun = time.monotonic()
        self.why = "exited"
        self.code: int | None = None

    def answer(self) -> bytes:
        return pack_frame(
            {
                "end": self.why,
                "exit_code": self.code if self.why == "exited" else None,
                "seconds": time.monotonic() - self.begun,
                "stdout_bytes": len(self.out.content),
                "stdout_cut": self.out.cut,
                "stderr_cut": self.err.cut,
            },
            bytes(self.out.content + self.err.content),
        )

    def forget(self) -> None:
        """Its deadline still holds it, and may be far."""
        self.out.content = self.err.content = bytearray()


class Connection:
    """One request of the host, and its answers."""

    def __init__(self, init: Init, stream: socket.socket) -> None:
        self.init = init
        self.stream = stream
        self.received = bytearray()
        self.to_send = bytearray()
        self.header: dict[str, Any] | None = None
        self.last = False
        stream.setblocking(False)
        init.selector.register(stream, selectors.EVENT_READ, self._ready)
        init.after(REQUEST_SECONDS, self._too_slow)

    def say(self, frame: bytes, *, last: bool) -> None:
        if self.stream.fileno() < 0:
            return  # the host went away; an exec goes on to its own deadline
        self.to_send += frame
        self.last = self.last or last
        self._send()

    def refuse(self, reason: str, text: str) -> None:
        self.say(pack_frame({"error": reason, "text": text}), last=True)

    def close(self) -> None:
        if self.stream.fileno() >= 0:
            self.init.selector.unregister(self.stream)
            self.stream.close()

    def _too_slow(self) -> None:
        if self.header is None:
            self.close()

    def _ready(self, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._send()
        if self.stream.fileno() >= 0 and events & selectors.EVENT_READ:
            self._receive()

    def _send(self) -> None:
        try:
            while self.to_send:
                del self.to_send[: self.stream.send(self.to_send[:1_000_000])]
        except BlockingIOError:
            self.init.selector.modify(self.stream, selectors.EVENT_READ | selectors.EVENT_WRITE, self._ready)
            return
        except OSError:
            self.close()
            return
        self.init.selector.modify(self.stream, selectors.EVENT_READ, self._ready)
        if self.last:
            self.close()

    def _receive(self) -> None:
        try:
            piece = self.stream.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self.close()
            return
        if self.header is not None:
            return  # nothing may follow a request
        self.received += piece
        try:
            found = unpack_init_header(self.received)
            if found is None:
                return
            header, begin = found
            if header["verb"] != "put" and header["body"] > STDIN_BYTES_MAX:
                self.refuse("BadRequest", "a body is too long")
            elif header["verb"] == "put" or len(self.received) >= begin + header["body"]:
                self.header = header
                body, self.received = bytes(self.received[begin:]), bytearray()
                self.init.answer(self, header, body)
        except (ValueError, KeyError, TypeError) as fault:
            self.refuse("BadRequest", str(fault))


class Init:
    """The loop, and what it holds."""

    def __init__(self, config: Config, listener: socket.socket, ring: LogRing | None, state_fd: int | None) -> None:
        self.config = config
        self.listener = listener
        self.ring = ring
        self.state_fd = state_fd
        self.selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._counter = itertools.count()
        self._execs: dict[int, Exec] = {}
        self._ending: list[Exec] = []
        self._sweep_until = 0.0
        self._sweeping = False
        self._exec_ids: dict[str, None] = {}
        self._writers: set[int] = set()
        self.shutting_down = False
        self.command = Command(self) if config.command else None

    def run(self) -> None:
        woken, wake = os.pipe()
        for fd in (woken, wake):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self.listener.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ, self._accept)
        self.selector.register(woken, selectors.EVENT_READ, lambda _events: self._drain(woken))
        if self.command is not None:
            self.command.start()
        self.save_state()
        while True:
            wait = max(self._timers[0][0] - time.monotonic(), 0) if self._timers else None
            for key, events in self.selector.select(wait):
                current = self.selector.get_map().get(key.fd)
                if current is not None and current.data == key.data:  # not closed meanwhile by another
                    self._dispatch(key, events)
            self._reap()
            while self._timers and self._timers[0][0] <= time.monotonic():
                heapq.heappop(self._timers)[2]()

    def _dispatch(self, key: selectors.SelectorKey, events: int) -> None:
        """One request that goes wrong ends itself, not the workspace."""
        try:
            key.data(events)
        except Exception:  # noqa: BLE001  whatever it was: told where the host finds it
            with contextlib.suppress(OSError):
                traceback.print_exc()
            if key.fileobj is not self.listener:
                with contextlib.suppress(KeyError, ValueError):
                    self.selector.unregister(key.fileobj)

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._counter), what))

    def save_state(self) -> None:
        if self.state_fd is not None:
            text = json.dumps(self.command.told() if self.command else {}).encode()
            with contextlib.suppress(OSError):  # the disk is full
                os.pwrite(self.state_fd, text.ljust(STATE_BYTES), 0)

    def _accept(self, _events: int) -> None:
        try:
            stream, _ = self.listener.accept()
        except OSError:
            return
        (pid,) = struct.unpack_from("i", stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if pid != 0 and os.getpid() == 1:
            stream.close()  # one of our own namespace
            return
        Connection(self, stream)

    @staticmethod
    def _drain(fd: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(fd, 4096):
                pass

    # What the host asks.

    def answer(self, connection: Connection, header: dict[str, Any], body: bytes) -> None:
        asked = getattr(self, f"_on_{header['verb']}", None)
        if asked is None:
            connection.refuse("BadRequest", f"no verb {header['verb']!r}")
        elif self.shutting_down and header["verb"] != "shutdown":
            connection.refuse("Stopping", "the workspace is being stopped")
        else:
            try:
                asked(connection, header, body)
            except OSError as fault:  # no process, no descriptor
                connection.refuse("ProcessLimit", f"{header['verb']}: {fault.strerror}")

    def _on_ping(self, connection: Connection, _header: dict[str, Any], _body: bytes) -> None:
        connection.say(pack_frame({"pid": os.getpid(), **(self.command.told() if self.command else {})}), last=True)

    def _on_logs(self, connection: Connection, header: dict[str, Any], _body: bytes) -> None:
        content, begin = self.ring.read(header["offset"], header["count"]) if self.ring else (b"", 0)
        connection.say(pack_frame({"begin": begin}, content), last=True)

    def _on_exec(self, connection: Connection, header: dict[str, Any], body: bytes) -> None:
        exec_id = header["exec_id"]
        if exec_id in self._exec_ids:
            connection.refuse("ExecRepeated", f"exec {exec_id} was started before")
            return
        if len(self._execs) + len(self._ending) >= EXECS_MAX:
            connection.refuse("TooManyExecs", f"{EXECS_MAX} execs run already")
            return
        begun = Exec(exec_id, connection, header["output_bytes_max"])
        started = Started(self.config, header["argv"], header["environment"], header["folder"])
        stdin, give = os.pipe()
        try:
            begun.keeper = started.spawn(stdin, begun.out.given, begun.err.given)
        except OSError as fault:
            for fd in (give, begun.out.fd, begun.err.fd):
                os.close(fd)
            connection.refuse("ProcessLimit", f"no process can be started: {fault.strerror}")
            return
        finally:
            for fd in (stdin, begun.out.given, begun.err.given):
                os.close(fd)
        self._exec_ids[exec_id] = None
        if len(self._exec_ids) > EXEC_IDS_KEPT:
            del self._exec_ids[next(iter(self._exec_ids))]
        self._execs[begun.keeper] = begun
        for pipe in (begun.out, begun.err):
            self.selector.register(pipe.fd, selectors.EVENT_READ, self._reader(pipe))
        self._feed(give, body)
        self.after(header["deadline_seconds"], lambda: self._end(begun, "deadline"))
        connection.say(pack_frame({"started": True}), last=False)

    def _on_stop_exec(self, connection: Connection, header: dict[str, Any], _body: bytes) -> None:
        found = [one for one in self._execs.values() if one.exec_id == header["exec_id"]]
        for one in found:
            self._end(one, "killed")
        connection.say(pack_frame({"found": bool(found)}), last=True)

    def _on_connect(self, connection: Connection, header: dict[str, Any], _body: bytes) -> None:
        """A socket made here, in the workspace's network, given to the host."""
        fault: OSError | None = None
        for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            with contextlib.ExitStack() as stack:
                try:
                    made = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
                    made.settimeout(0.2)
                    made.connect((address, header["port"]))
                except (OSError, OverflowError) as refused:
                    fault = refused if isinstance(refused, OSError) else OSError(errno.EINVAL, str(refused))
                    continue
                made.setblocking(True)
                connection.stream.setblocking(True)
                frame = pack_frame({"connected": True})
                with contextlib.suppress(OSError):
                    socket.send_fds(connection.stream, [frame], [made.fileno()])
                connection.close()
                return
        connection.refuse("PortClosed", f"port {header['port']}: {fault}")

    def _on_put(self, connection: Connection, header: dict[str, Any], body: bytes) -> None:
        """A child of its own writes it: files of a tenant may be slow, or no files."""
        pid = os.fork()
        if pid == 0:
            try:
                put_file(connection.stream, self.config, header, body)
            finally:
                os._exit(0)
        self._writers.add(pid)
        self.after(REQUEST_SECONDS, lambda: self._kill_writer(pid))
        connection.close()

    def _kill_writer(self, pid: int) -> None:
        if pid in self._writers:
            os.kill(pid, signal.SIGKILL)

    def _on_shutdown(self, connection: Connection, header: dict[str, Any], _body: bytes) -> None:
        connection.say(pack_frame({"stopping": True}), last=True)
        if not self.shutting_down:
            self.shutting_down = True
            for begun in self._execs.values():
                begun.why = "killed"
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGTERM)
            self._reap()
        self.after(header["grace_seconds"], lambda: os._exit(0))  # all the others die with pid 1

    # Commands and their ends.

    def _reader(self, pipe: Pipe) -> Callable[[int], None]:
        def ready(_events: int) -> None:
            if not pipe.read():
                self._end_pipe(pipe)

        return ready

    def _end_pipe(self, pipe: Pipe) -> None:
        pipe.ended = True
        self.forget(pipe.fd)

    def forget(self, fd: int) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self.selector.unregister(fd)
            os.close(fd)

    def _feed(self, fd: int, content: bytes) -> None:
        left = bytearray(content)
        os.set_blocking(fd, False)

        def ready(_events: int) -> None:
            try:
                while left:
                    del left[: os.write(fd, left[:CHUNK])]
            except BlockingIOError:
                return
            except OSError:
                left.clear()  # it reads no more
            self.forget(fd)

        self.selector.register(fd, selectors.EVENT_WRITE, ready)

    def _end(self, begun: Exec, why: str) -> None:
        if self._execs.get(begun.keeper) is begun:  # and not a later one, of the same pid
            begun.why = why if begun.why == "exited" else begun.why
            os.kill(begun.keeper, signal.SIGKILL)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                if self.shutting_down:
                    os._exit(0)
                return
            if pid == 0:
                return
            self._writers.discard(pid)
            if pid in self._execs:
                begun = self._execs.pop(pid)
                begun.code = shell_code(status)
                self._ending.append(begun)
                self._begin_sweep()
            elif self.command is not None and pid == self.command.keeper:
                self.command.ended(shell_code(status))
                self._begin_sweep()

    def _begin_sweep(self) -> None:
        if not self._sweeping:
            self._sweeping = True
            self._sweep_until = time.monotonic() + SWEEP_GIVES_UP_SECONDS
            self._sweep()

    def _sweep(self) -> None:
        """Kill what is below no keeper, until nothing is; one that forks faster than we look takes all down."""
        left = self._strangers()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if left and time.monotonic() < self._sweep_until:
            self.after(SWEEP_SECONDS, self._sweep)
            return
        if left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        self._sweeping = False
        ending, self._ending = self._ending, []
        for begun in ending:
            for pipe in (begun.out, begun.err):
                if not pipe.ended:
                    for _ in range(PIPE_CHUNKS_MAX):  # another exec may hold its other end
                        if not pipe.read():
                            break
                    self._end_pipe(pipe)
            begun.connection.say(begun.answer(), last=True)
            begun.forget()

    def _strangers(self) -> list[int]:
        parents: dict[int, int] = {}
        for name in os.listdir("/proc"):
            if name.isdigit():
                with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stat:
                    fields = stat.read().rpartition(b")")[2].split()
                    if fields[0] not in (b"Z", b"X"):
                        parents[int(name)] = int(fields[1])
        known = self._known()
        me = os.getpid()
        found = []
        for pid in parents:
            above = pid
            while above not in known and above != me and above in parents:
                above = parents[above]
            if above not in known and pid != me:
                found.append(pid)
        return found

    def _known(self) -> set[int]:
        return {*self._execs, *self._writers, *([self.command.keeper] if self.command else [])} - {0}


class Command:
    """The workspace's own command: started again when it ends, later and later while it ends at once."""

    def __init__(self, init: Init) -> None:
        self._init = init
        self.keeper = 0
        self.restarts = 0
        self.crashes_in_a_row = 0
        self.exit_code: int | None = None
        self._begun = 0.0

    def told(self) -> dict[str, Any]:
        return {
            "restarts": self.restarts,
            "crashes_in_a_row": self.crashes_in_a_row,
            "command_exit_code": self.exit_code,
        }

    def start(self) -> None:
        config = self._init.config
        output = Pipe(0)
        nothing = os.open("/dev/null", os.O_RDONLY)
        self._begun = time.monotonic()
        try:
            self.keeper = Started(config, config.command, {}, None).spawn(nothing, output.given, output.given)
        except OSError:
            self.forget_output(output)
            self.ended(126)
        else:
            self._init.selector.register(output.fd, selectors.EVENT_READ, lambda _events: self._read(output))
        finally:
            os.close(nothing)
            os.close(output.given)

    @staticmethod
    def forget_output(output: Pipe) -> None:
        os.close(output.fd)

    def _read(self, output: Pipe) -> None:
        try:
            piece = os.read(output.fd, CHUNK)
        except BlockingIOError:
            return
        if not piece:
            self._init.forget(output.fd)
        elif self._init.ring is not None:
            with contextlib.suppress(OSError):  # the disk is full: its logs are not worth its life
                self._init.ring.append(piece)

    def ended(self, code: int) -> None:
        config = self._init.config
        self.keeper = 0
        self.exit_code = code
        crashed = time.monotonic() - self._begun < config.crash_seconds
        self.crashes_in_a_row = self.crashes_in_a_row + 1 if crashed else 0
        wait = config.restart_seconds * 2 ** min(max(self.crashes_in_a_row - 1, 0), DOUBLINGS_MAX)
        self._init.save_state()
        self._init.after(min(wait, config.restart_seconds_max), self._again)

    def _again(self) -> None:
        if self._init.shutting_down:
            return
        self.restarts += 1
        self.start()
        self._init.save_state()


def put_file(stream: socket.socket, config: Config, header: dict[str, Any], begun: bytes) -> None:
    """Write beside the place and rename; no component may be a link. Runs in a child, and answers by itself."""
    stream.settimeout(REQUEST_SECONDS)
    if config.run_as is not None:
        os.setgroups([])
        os.setresgid(config.run_as[1], config.run_as[1], config.run_as[1])
        os.setresuid(config.run_as[0], config.run_as[0], config.run_as[0])
    begun = begun[: header["body"]]
    left = header["body"] - len(begun)  # still to come
    draft = f".dpp-put-{os.getpid()}-{time.monotonic_ns()}"
    folder = -1
    try:
        *parents, name = header["path"].split("/")
        folder = os.open(config.home, os.O_RDONLY | os.O_DIRECTORY)
        for parent in parents:
            with contextlib.suppress(FileExistsError):
                os.mkdir(parent, 0o755, dir_fd=folder)
            inner = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=folder)
        with os.fdopen(fd, "wb") as output:
            output.write(begun)
            while left:
                piece = stream.recv(min(CHUNK, left))
                if not piece:
                    raise OSError(errno.EPIPE, "the content broke off")
                left -= len(piece)
                output.write(piece)
            output.flush()
            os.fsync(fd)
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
        frame = pack_frame({"written": True})
    except OSError as fault:
        if folder >= 0:
            with contextlib.suppress(OSError):
                os.unlink(draft, dir_fd=folder)
        with contextlib.suppress(OSError):
            while left > 0 and (piece := stream.recv(CHUNK)):  # one that still sends would not hear the answer
                left -= len(piece)
        full = fault.errno in (errno.ENOSPC, errno.EDQUOT)
        frame = pack_frame(
            {"error": "NoSpace" if full else "PathRefused", "text": f"{header['path']}: {fault.strerror}"}
        )
    stream.sendall(frame)


def _read_config(fd: int) -> bytes:
    """All of it, or our end: nothing comes where the host died before it had recorded us."""
    given, until = b"", time.monotonic() + CONFIG_SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        while selector.select(max(until - time.monotonic(), 0)):
            piece = os.read(fd, CHUNK)
            if not piece and given:
                return given
            if not piece:
                break
            given += piece
    sys.exit(3)


def _from_folder(folder: str) -> None:
    """Where nothing can be inherited. The folder is root's and holds all four; who starts us is held by its labels."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{folder}/control")
    listener.bind(f"{folder}/control")
    listener.listen(64)
    with open(f"{folder}/config", "rb") as source:
        config = Config(json.loads(source.read()))
    ring, state = (os.open(f"{folder}/{name}", os.O_RDWR | os.O_CLOEXEC) for name in ("ring", "state"))
    Init(config, listener, LogRing(ring), state).run()


def main(arguments: list[str]) -> None:
    """`pid1.py CONFIG LISTENER RING STATE`, each the number of an inherited descriptor; or `pid1.py FOLDER`."""
    if len(arguments) == 1:
        _prctl(PR_SET_DUMPABLE, 0)
        _from_folder(arguments[0])
        return
    config_fd, listen_fd, ring_fd, state_fd = (int(one) for one in arguments)
    _prctl(PR_SET_DUMPABLE, 0)
    given = _read_config(config_fd)
    listener = socket.socket(fileno=listen_fd)
    Init(Config(json.loads(given)), listener, LogRing(ring_fd), state_fd).run()


if __name__ == "__main__":
    main(sys.argv[1:])
