"""Programs over one volume, each in a sandbox that sees nothing else: tar, du, rm."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, Final, cast

from ops.workspaces.drivers.process import sandbox

if TYPE_CHECKING:
    from io import BufferedReader

ERRORS_KEPT: Final = 16_384


class Tool:
    """A program under way. Its errors are read as they come, and their end is kept."""

    def __init__(self, process: subprocess.Popen[bytes], info: IO[bytes]) -> None:
        self.process = process
        self._said = bytearray()
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()
        with info:
            self._inside = sandbox.read_child_pid(info)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code. Raises subprocess.TimeoutExpired."""
        code = self.process.wait(timeout)
        self._reader.join()
        return code

    @property
    def output(self) -> BinaryIO:
        return cast("BinaryIO", self.process.stdout)

    @property
    def input(self) -> BinaryIO:
        return cast("BinaryIO", self.process.stdin)

    def take(self, piece: bytes) -> bool:
        """Whether it still reads; one that ended early says why."""
        try:
            self.input.write(piece)
        except BrokenPipeError:
            return False
        return True

    def no_more(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.input.close()

    def read_all(self, seconds: float) -> bytes | None:
        """Its output and its end; None where it did not end in time."""
        killer = threading.Timer(seconds, self.kill)
        killer.start()
        try:
            said = self.output.read()
            self.wait()
        finally:
            late = not killer.is_alive()
            killer.cancel()
        return None if late else said

    def kill(self) -> None:
        """The process inside: killing bubblewrap alone would leave it."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._inside or self.process.pid, signal.SIGKILL)

    def errors(self) -> str:
        return self._said.decode("utf-8", "replace").strip()

    def _listen(self) -> None:
        with cast("BufferedReader", self.process.stderr) as source:
            while piece := source.read1(65_536):
                self._said += piece
                del self._said[:-ERRORS_KEPT]


@contextlib.contextmanager
def running_tool(
    home: Path,
    command: Sequence[str],
    *,
    capability: str | None = None,
    read_only: bool = False,
    lock: int | None = None,
    stdin: int = subprocess.DEVNULL,
) -> Iterator[Tool]:
    """The descriptor of a lock stays open in the program, which outlives us no longer than its pipe. Bubblewrap has the
    reading end of its own words too: where we died it would die of them, and leave the inside half-made.
    """
    info_read, info_write = os.pipe()
    tool: Tool | None = None
    try:
        line = sandbox.tool_line(home, command, capability=capability, read_only=read_only, info=info_write)
        process = subprocess.Popen(  # noqa: S603  our own command line
            line.arguments,
            pass_fds=(*line.descriptors, info_read, *(() if lock is None else (lock,))),
            env={"PATH": os.defpath},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        os.close(info_write)
        info_write = -1
        tool = Tool(process, os.fdopen(info_read, "rb"))
        info_read = -1
        yield tool
    finally:
        for fd in (info_read, info_write):
            if fd >= 0:
                os.close(fd)
        if tool is not None:
            tool.kill()
            for stream in (tool.process.stdin, tool.process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()
            tool.wait()
