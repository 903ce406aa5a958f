"""What it costs to archive a home, to read it back, and to bring it back: in megabytes of tar a second, of one core.

make bench B=workspace_archive

The home is 200 MB of the packages of this environment: text, code, many small files and some large ones. CPU is of this
process and of tar; the bucket's is not in it. The targets are 60 MB/s for archive and verify together, 80 for restore.
"""

import os
import resource
import shutil
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from dpp_project.aws import clients
from dpp_project.settings import ENV
from ops.workspaces.archive_store import frames
from ops.workspaces.archive_store.store import ArchiveStore
from tests.gear.builders.archives import OURS, export, ignore, new_key, unpack

HOME_BYTES: Final = 200_000_000
TURNS: Final = 3


def make_home(folder: Path) -> None:
    left = HOME_BYTES
    source = Path(sysconfig.get_paths()["purelib"])
    for path in sorted(source.rglob("*")):
        if path.is_file() and not path.is_symlink() and left > 0:
            made = folder / path.relative_to(source)
            made.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, made)
            left -= path.stat().st_size


def cpu_seconds() -> float:
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def say(name: str, what: Callable[[], object], megabytes: float) -> float:
    """The best of some turns, which had fewest neighbours. Its CPU seconds."""
    best = []
    for _ in range(TURNS):
        begun, cpu = time.perf_counter(), cpu_seconds()
        what()
        best.append((cpu_seconds() - cpu, time.perf_counter() - begun))
    cpu, wall = min(best)[0], min(wall for _, wall in best)
    print(f"{name:34s} {megabytes / cpu:6.0f} MB/s of a core   {megabytes / wall:6.0f} MB/s by the clock")
    return cpu


def tar_alone(home: Path) -> None:
    with export(home) as tar:
        while tar.read(frames.READ_BYTES):
            pass


def packed(home: Path) -> None:
    frame = frames.frame_compressor()
    with export(home) as tar:
        while plain := tar.read(frames.READ_BYTES):
            frame.compress(plain)
    frame.flush()


def measure(home: Path, folder: Path, store: ArchiveStore) -> None:
    key = new_key()
    sent = store.upload(key, OURS, export(home), opened=ignore)
    assert sent is not None
    verified = store.verify(key, OURS, sent)
    megabytes = sent.tar_bytes / 1e6
    print(f"{verified.members} members, {megabytes:.0f} MB of tar, {sent.object_bytes / 1e6:.0f} MB packed")
    restored = folder / "restored"

    def archive() -> None:
        store.upload(again := new_key(), OURS, export(home), opened=ignore)
        store.delete(again)

    def restore() -> None:
        shutil.rmtree(restored, ignore_errors=True)
        unpack(restored, store.read(key, verified))
        subprocess.run(["sync", "-f", str(restored)], check=True)

    say("tar alone", lambda: tar_alone(home), megabytes)
    say("tar and zstd", lambda: packed(home), megabytes)
    cpu = say("archive", archive, megabytes)
    cpu += say("verify", lambda: store.verify(key, OURS, sent), megabytes)
    print(f"{'archive and verify':34s} {megabytes / cpu:6.0f} MB/s of a core")
    say("read", lambda: [len(chunk) for chunk in store.read(key, verified)], megabytes)
    say("restore", restore, megabytes)
    store.delete(key)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{'memory of this process, at most':34s} {peak:6.0f} MB")


def main() -> None:
    s3 = clients.s3_client(ENV.S3_ENDPOINT_URL)
    bucket = f"bench-archives-{os.getpid()}"
    s3.create_bucket(Bucket=bucket)
    with tempfile.TemporaryDirectory() as name:
        home = Path(name) / "home"
        home.mkdir()
        make_home(home)
        measure(home, Path(name), ArchiveStore(s3, bucket))
    s3.delete_bucket(Bucket=bucket)


if __name__ == "__main__":
    main()
