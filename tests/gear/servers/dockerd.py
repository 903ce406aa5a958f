"""A Docker daemon of the tests' own: no bridge, no rule of iptables, an image made of this machine's packages."""

import contextlib
import functools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.gear.waiting import wait_until

IMAGE: Final = "dpp-workspace:test"
PACKAGES: Final = (
    *("base-files", "bash", "coreutils", "dash", "findutils", "grep", "libacl1", "libattr1", "libbz2-1.0", "libc-bin"),
    *("libc6", "libcrypt1", "libexpat1", "libffi8", "libgcc-s1", "libgmp10", "liblzma5", "libpcre2-8-0", "libselinux1"),
    *(
        "libssl3",
        "libtinfo6",
        "libuuid1",
        "procps",
        "libproc2-0",
        "python3-minimal",
        "python3.11-minimal",
        "sed",
        "tar",
    ),
    *("libpython3.11-minimal", "libpython3.11-stdlib", "util-linux", "zlib1g", "media-types", "libstdc++6"),
)
LINKS: Final = ("bin", "lib", "lib64", "sbin")
"""Of a merged /usr, into which the packages' files lead."""


def why_not() -> str | None:
    if os.geteuid() != 0:
        return "a Docker daemon of the tests' own needs root"
    return None if shutil.which("dockerd") else "dockerd is not installed: make setup-docker"


class DockerDaemon:
    """It may be killed, and started again over what it left."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.address = f"unix://{root}/socket"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        root = self._root
        with (root / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *("dockerd", "--bridge=none", "--iptables=false", "--ip6tables=false", "--storage-driver=overlay2"),
                    *("--data-root", f"{root}/data", "--exec-root", f"{root}/exec", "--pidfile", f"{root}/pid"),
                    *("--host", self.address),
                ],
                stdout=log,
                stderr=log,
            )
        wait_until(self._answers, seconds=60, what="the Docker daemon")

    def _answers(self) -> bool:
        """By hand: the SDK leaves a socket open that reached nobody."""
        if self._process is None or self._process.poll() is not None:
            pytest.fail((self._root / "log").read_text(encoding="utf-8")[-2_000:])
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(5)
            try:
                asking.connect(str(self._root / "socket"))
                asking.sendall(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
                return b" 200 " in asking.recv(4_096)
            except OSError:
                return False

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(30)
            self._process = None
        (self._root / "pid").unlink(missing_ok=True)
        if number == signal.SIGTERM:
            self._unmount()

    def _unmount(self) -> None:
        """A daemon unmounts what it mounted itself, and nothing of a daemon before it that was killed."""
        mounted = (line.split()[1] for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines())
        for left in reversed([path for path in mounted if path.startswith(f"{self._root}/")]):
            subprocess.run(["umount", "--lazy", left], check=True)


@contextlib.contextmanager
def a_docker_daemon(*, has_image: bool = True) -> Iterator[DockerDaemon]:
    import docker

    root = Path(tempfile.mkdtemp(prefix="dpp-docker-"))
    daemon = DockerDaemon(root)
    try:
        daemon.start()
        if has_image:
            with contextlib.closing(docker.APIClient(base_url=daemon.address, version="1.41")) as api:
                repository, _, tag = IMAGE.partition(":")
                api.import_image_from_data(packages_as_tar(), repository=repository, tag=tag)
        yield daemon
    finally:
        daemon.stop()
        shutil.rmtree(root, ignore_errors=True)


@functools.cache
def packages_as_tar() -> bytes:
    listed = subprocess.run(["dpkg-query", "--listfiles", *PACKAGES], capture_output=True, text=True, check=True)
    paths = sorted(
        {
            f"usr/{path[1:]}" if path.split("/")[1] in LINKS else path[1:]
            for path in listed.stdout.split("\n")
            if path.startswith("/")
        }
    )
    wanted = [
        path for path in paths if not path.startswith(("usr/share/doc", "usr/share/man", "usr/share/locale", "var"))
    ]
    known = [path for path in [*LINKS, *wanted, "etc/passwd", "etc/group"] if path and os.path.lexists(f"/{path}")]
    packed = subprocess.Popen(
        ["tar", "--create", "--directory=/", "--no-recursion", "--files-from=-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert packed.stdin is not None
    assert packed.stdout is not None
    packed.stdin.write("\n".join(known).encode())
    packed.stdin.close()
    with packed.stdout as image:
        content = image.read()
    assert packed.wait() == 0
    return content
