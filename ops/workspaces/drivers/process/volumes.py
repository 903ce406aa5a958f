"""Volumes as folders: what is the tenant's lies in `home`, whose it is beside it.

    volumes/NAME/label.json
                 starts           how often, once it was started
                 home/
    doomed/NAME.RANDOM/       renamed away first, then removed: a volume is there whole or not at all
    drafts/NAME.RANDOM/       made first, then renamed into place

Death between the steps: a draft is removed an hour later, with other leftovers; what is doomed, by the next call for
the same name, as its deletion was never said to be done.
"""

import contextlib
import errno
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO, Final

import structlog

from dpp_project.env_file import write_whole
from ops.workspaces.drivers.base import (
    MEASURE,
    TOO_MUCH_TO_MEASURE,
    DriverCorrupt,
    DriverNoSpace,
    DriverRefused,
    DriverUnavailable,
    Label,
    SeenVolume,
    VerbAnswer,
    measured_bytes,
)
from ops.workspaces.drivers.process import locks, records, sandbox, tools

log = structlog.get_logger("dpp.workspaces")

LABEL: Final = "label.json"
STARTS: Final = "starts"
HOME_FOLDER: Final = "home"
USAGE_SECONDS: Final = 60.0
REMOVE_SECONDS: Final = 45.0
"""Of one call, which is within an operation's lease; the next goes on with what is left."""
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
TAR_KEEPS: Final = ("--xattrs", "--xattrs-include=*", "--acls", "--sparse", "--numeric-owner")
_FULL_WORDS: Final = ("No space left on device", "Disk quota exceeded", "Wrote only")
"""The last is how tar says that the disk took the beginning of a block."""


class Volumes:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._labels: dict[str, tuple[int, Label]] = {}

    def home(self, name: str) -> Path:
        return self._root / "volumes" / name / HOME_FOLDER

    def all(self) -> list[SeenVolume]:
        try:
            with os.scandir(self._root / "volumes") as entries:
                found = {entry.name: entry.inode() for entry in entries}
        except FileNotFoundError:
            return []
        self._labels = {name: kept for name, kept in self._labels.items() if found.get(name) == kept[0]}
        return [SeenVolume(name, self._label(name, inode)) for name, inode in sorted(found.items())]

    def look(self, name: str) -> SeenVolume | None:
        folder = self._root / "volumes" / name
        try:
            return SeenVolume(name, self._label(name, folder.stat().st_ino), self.starts(name))
        except FileNotFoundError:
            return None

    def starts(self, name: str) -> int:
        try:
            return int((self._root / "volumes" / name / STARTS).read_bytes())
        except (FileNotFoundError, ValueError):
            return 0

    def count_start(self, name: str) -> None:
        """Before anything of the tenant runs on it. Died after it: counted once too often, which only asks for care."""
        write_whole(self._root / "volumes" / name / STARTS, str(self.starts(name) + 1))

    def _label(self, name: str, inode: int) -> Label | None:
        """A label never changes, so it is read once for each folder."""
        kept = self._labels.get(name)
        if kept is not None and kept[0] == inode:
            return kept[1]
        try:
            label = Label(**json.loads((self._root / "volumes" / name / LABEL).read_bytes()))
        except (FileNotFoundError, NotADirectoryError, ValueError, TypeError):
            return None
        self._labels[name] = (inode, label)
        return label

    def ensure(self, name: str, label: Label) -> VerbAnswer:
        for _ in range(2):
            seen = self.look(name)
            if seen is not None:
                if seen.label is None or seen.label.workspace_id != label.workspace_id:
                    raise DriverRefused(f"{name} is there, and is not of workspace {label.workspace_id}")
                return VerbAnswer.ALREADY
            if self._make(name, label):
                return VerbAnswer.DONE
        raise DriverUnavailable(f"{name} came and went meanwhile")

    def _make(self, name: str, label: Label) -> bool:
        draft = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=self._root / "drafts"))
        try:
            (draft / HOME_FOLDER).mkdir(mode=0o755)
            if os.geteuid() == 0:
                uid = sandbox.uid_of(label.workspace_id)
                os.chown(draft / HOME_FOLDER, uid, uid)
            write_durably(draft / LABEL, json.dumps(asdict(label)))
            try:
                draft.rename(self._root / "volumes" / name)
            except OSError as fault:
                if fault.errno in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}:
                    return False  # a rival made it
                raise
            _sync_folder(self._root / "volumes")
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return True

    def remove_old_drafts(self) -> None:
        for draft in (self._root / "drafts").iterdir():
            with contextlib.suppress(FileNotFoundError):
                if time.time() - draft.stat().st_mtime > records.LEFTOVER_SECONDS:
                    shutil.rmtree(draft, ignore_errors=True)

    def doom(self, name: str) -> None:
        """From here on there is no such volume. The caller holds its lock."""
        place = self._root / "doomed" / f"{name}.{os.urandom(8).hex()}"
        with contextlib.suppress(FileNotFoundError):
            (self._root / "volumes" / name).rename(place)
        _sync_folder(self._root / "volumes")

    def doomed(self, name: str) -> list[Path]:
        return sorted((self._root / "doomed").glob(f"{name}.*"))

    @staticmethod
    def remove_doomed(place: Path) -> None:
        """By find in a sandbox: what a tenant closed to itself is opened, and no depth is too deep."""
        command = ("/usr/bin/find", ".", "-mindepth", "1", "-delete")
        home, said = place / HOME_FOLDER, ""
        if home.exists():
            with tools.running_tool(home, command, capability="CAP_DAC_OVERRIDE") as tool:
                tool.read_all(REMOVE_SECONDS)
                said = tool.errors()
            with contextlib.suppress(OSError):
                home.rmdir()
        if home.exists():
            raise DriverUnavailable(f"removing {place.name}: {said or 'there is more of it'}", reason="StillRemoving")
        shutil.rmtree(place, ignore_errors=True)
        if place.exists():
            raise DriverUnavailable(f"removing {place.name}: its folder stays")

    def usage_bytes(self, name: str) -> int:
        command = ("/bin/sh", "-c", MEASURE)
        with tools.running_tool(self.home(name), command, capability="CAP_DAC_READ_SEARCH", read_only=True) as tool:
            said = tool.read_all(USAGE_SECONDS)
        try:
            return measured_bytes(said or b"", os.statvfs(self.home(name)))
        except ValueError as fault:
            raise DriverUnavailable(f"measuring {name}: {tool.errors()}", reason=TOO_MUCH_TO_MEASURE) from fault

    @contextlib.contextmanager
    def export(self, name: str, lock: locks.NameLock) -> Iterator[BinaryIO]:
        command = ("/usr/bin/tar", "--create", "--format=posix", *TAR_KEEPS, "--file=-", ".")
        with tools.running_tool(
            self.home(name), command, capability="CAP_DAC_READ_SEARCH", read_only=True, lock=lock.fd
        ) as tool:
            yield tool.output
            if tool.output.read(1):
                return  # left before its end: nothing is said of the whole
            _judge_export(name, tool)

    def import_(self, name: str, tar: Iterator[bytes], lock: locks.NameLock) -> None:
        """The capability is for a home whose root its tenant closed to itself: it is synced once it is closed again."""
        with disk_faults():
            if any(self.home(name).iterdir()):
                raise DriverRefused(f"{name} is not empty", reason="VolumeNotEmpty")
        extract = ("/usr/bin/tar", "--extract", "--preserve-permissions", "--no-same-owner", *TAR_KEEPS, "--file=-")
        command = ("/bin/sh", "-c", '"$@" && exec /usr/bin/sync --file-system .', "sh", *extract)
        with contextlib.ExitStack() as stack:
            with disk_faults():
                running = tools.running_tool(
                    self.home(name), command, capability="CAP_DAC_READ_SEARCH", lock=lock.fd, stdin=subprocess.PIPE
                )
                tool = stack.enter_context(running)
            for piece in tar:  # what it raises is not the disk's
                if not tool.take(piece):
                    break
            tool.no_more()
            if (code := tool.wait()) != 0:
                raise _fault_of_tar(f"filling {name}", tool, code)
            for _ in tar:  # past the mark where tar stops: only the end of it says that all of it was right
                pass


def _judge_export(name: str, tool: tools.Tool) -> None:
    code = tool.wait()
    if code == 1:
        raise DriverCorrupt(f"reading {name}: {tool.errors()}", reason="ChangedWhileRead")
    if code != 0:
        raise _fault_of_tar(f"reading {name}", tool, code)
    tell_of_sockets(name, tool.errors())


def tell_of_sockets(name: str, errors: str) -> None:
    if sockets := [line for line in errors.splitlines() if line.endswith("socket ignored")]:
        log.info("sockets are in no archive", volume=name, sockets=len(sockets), first=sockets[0])


def _fault_of_tar(what: str, tool: tools.Tool, code: int) -> DriverCorrupt | DriverNoSpace | DriverUnavailable:
    said = tool.errors()
    if any(words in said for words in _FULL_WORDS):
        return DriverNoSpace(f"{what}: {said}")
    if code == 2:
        return DriverCorrupt(f"{what}: {said}")
    return DriverUnavailable(f"{what}: it ended with {code}: {said}")  # bubblewrap, or a kill


def write_durably(path: Path, text: str) -> None:
    """Whole, and on disk when it returns."""
    draft = path.with_name(path.name + ".new")
    with draft.open("w", encoding="utf-8") as output:
        output.write(text)
        output.flush()
        os.fsync(output.fileno())
    draft.replace(path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def disk_faults() -> Iterator[None]:
    """A full disk is the workspace's, every other fault of the disk is nobody's: nothing is known then. What is said of
    it is shown to tenants, and the paths of this host are not for them.
    """
    try:
        yield
    except locks.LockedByAnotherError as fault:
        raise DriverUnavailable(f"another works on {fault}", reason="Busy") from fault
    except OSError as fault:
        said = os.strerror(fault.errno) if fault.errno else type(fault).__name__
        if fault.errno in FULL:
            raise DriverNoSpace(f"the disk: {said}") from fault
        log.warning("a fault of the disk", error=str(fault))
        raise DriverUnavailable(f"the disk: {said}", reason="DiskFault") from fault
