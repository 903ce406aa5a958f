"""The container image, built and run without an engine: buildah builds it, runc runs it as compose.yaml says.

The Dockerfile's base cannot be pulled everywhere, so a Debian of the same release, made by debootstrap, carries its
name. Its Python is Debian's, and it trusts what this machine trusts.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import yaml

from dpp_project.devstack.programs import REPOSITORY

STORE: Final = REPOSITORY / ".devstack" / "image"
NAME: Final = "localhost/dpp:test"
NEEDED: Final = ("buildah", "debootstrap", "runc")
PACKAGES_OF_BASE: Final = "ca-certificates,python3,python3-pip"
AUTHORITIES: Final = "etc/ssl/certs/ca-certificates.crt"
SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108  a place inside the container
NEW_NAMESPACES: Final = 0x7E02_0000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET: what Docker's profile refuses to `clone`."""
REFUSED_BY_DOCKER: Final = ("unshare", "setns", "mount", "umount2", "pivot_root", "bpf", "perf_event_open", "keyctl")


def missing_tools() -> list[str]:
    return [tool for tool in NEEDED if shutil.which(tool) is None]


def buildah(*arguments: str, log: Path | None = None) -> str:
    command = ["buildah", "--root", str(STORE / "layers"), "--runroot", str(STORE / "run"), *arguments]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if log is not None:
        log.write_text(done.stdout + done.stderr, encoding="utf-8")
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}:\n{(done.stdout + done.stderr)[-4_000:]}")
    return done.stdout.strip()


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((REPOSITORY / "compose.yaml").read_text(encoding="utf-8"))
    return loaded


def base_name() -> str:
    dockerfile = (REPOSITORY / "Dockerfile").read_text(encoding="utf-8")
    found = re.search(r"^FROM (\S+)$", dockerfile, re.MULTILINE)
    assert found is not None
    return f"docker.io/library/{found[1]}"


def make_base() -> None:
    """The stand-in for the Dockerfile's base, once; a later build takes it from the store."""
    name = base_name()
    if name in buildah("images", "--format", "{{.Name}}:{{.Tag}}").splitlines():
        return
    release = name.rsplit("-", 1)[1]
    with tempfile.TemporaryDirectory(prefix="dpp-base-") as folder:
        root = Path(folder)
        command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES_OF_BASE}", release, str(root)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2_000:]
        for marker in root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
            marker.unlink()  # the official image's Python is nobody's but the image's
        (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
        shutil.copy(f"/{AUTHORITIES}", root / AUTHORITIES)
        (root / "etc/pip.conf").write_text(f"[global]\ncert = /{AUTHORITIES}\n", encoding="ascii")
        container = buildah("from", "scratch")
        buildah("add", "--quiet", container, str(root), "/")
        buildah("commit", "--quiet", "--rm", container, name)


@dataclass(frozen=True)
class Built:
    seconds: float
    size_bytes: int
    root: Path
    config: Mapping[str, Any]

    @cached_property
    def user(self) -> dict[str, int]:
        """The image's user as the image's own /etc/passwd resolves it."""
        lines = (self.root / "etc/passwd").read_text(encoding="utf-8").splitlines()
        _, _, uid, gid, *_ = next(line for line in lines if line.startswith(f"{self.config['User']}:")).split(":")
        return {"uid": int(uid), "gid": int(gid)}


@contextmanager
def built(log: Path) -> Iterator[Built]:
    """The image of this tree, and its files mounted to be run."""
    STORE.mkdir(parents=True, exist_ok=True)
    make_base()
    began = time.monotonic()
    buildah("build", "--isolation", "chroot", "--pull-never", "--layers", "--tag", NAME, ".", log=log)
    seconds = time.monotonic() - began
    about = json.loads(buildah("inspect", "--type", "image", NAME))
    size = sum(int(part) for part in re.findall(r'"size": ?(\d+)', about["Manifest"]))
    container = buildah("from", "--pull-never", NAME)
    try:
        yield Built(seconds, size, Path(buildah("mount", container)), about["OCIv1"]["config"])
    finally:
        buildah("rm", container)


@dataclass
class Containers:
    """Runs the services of compose.yaml, with its commands and environment; only addresses are this machine's."""

    image: Built
    folder: Path
    addresses: Mapping[str, str]
    started: list["Container"] = field(default_factory=list)

    def start(self, service: str, command: Sequence[str] | None = None) -> "Container":
        said = compose()["services"][service]
        assert said["image"] == "dpp:local"
        entrypoint = said.get("entrypoint", self.image.config["Entrypoint"])
        arguments = [*entrypoint, *(said["command"] if command is None else command)]
        bundle = self.folder / f"{service}-{len(self.started)}"
        bundle.mkdir()
        environ = _image_environ(self.image.config) | compose_environ(said["environment"]) | dict(self.addresses)
        (bundle / "config.json").write_text(json.dumps(self._config(said, arguments, environ)), encoding="utf-8")
        container = Container(service, bundle, said)
        self.started.append(container)
        return container

    def _config(self, said: Mapping[str, Any], arguments: list[str], environ: Mapping[str, str]) -> dict[str, Any]:
        """What Docker makes of these lines of compose.yaml, in the words of the runtime."""
        assert said["cap_drop"] == ["ALL"]
        assert said["security_opt"] == ["no-new-privileges:true"]
        volumes = [self._volume(*volume.split(":")) for volume in said["volumes"]]
        nothing: dict[str, list[str]] = {kind: [] for kind in ("bounding", "effective", "permitted", "inheritable")}
        return {
            "ociVersion": "1.0.2",
            "process": {
                "args": arguments,
                "env": [f"{name}={value}" for name, value in environ.items()],
                "cwd": self.image.config["WorkingDir"],
                "user": self.image.user,
                "noNewPrivileges": True,
                "capabilities": nothing,
            },
            "root": {"path": str(self.image.root), "readonly": said["read_only"]},
            "mounts": [*_mounts(said["tmpfs"]), *volumes],
            "linux": {
                "namespaces": [{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}],
                "seccomp": _docker_refusals(),
            },
        }

    def _volume(self, name: str, place: str) -> dict[str, Any]:
        source = self.folder / "volumes" / name
        if not source.exists():
            source.mkdir(parents=True)
            for above in (source, self.folder, self.folder / "volumes"):
                above.chmod(0o755)
            os.chown(source, self.image.user["uid"], self.image.user["gid"])
        return {"destination": place, "type": "bind", "source": str(source), "options": ["rbind", "rw"]}


class Container:
    def __init__(self, service: str, bundle: Path, said: Mapping[str, Any]) -> None:
        self.name = f"dpp-{os.getpid()}-{bundle.name}"
        self.said = said
        self.log = bundle / "log"
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                ["runc", "--root", str(STORE / "runc"), "run", "--bundle", str(bundle), self.name],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def execute(self, *command: str) -> subprocess.CompletedProcess[str]:
        """A further process in it, as Docker runs a health check."""
        return subprocess.run(
            ["runc", "--root", str(STORE / "runc"), "exec", self.name, *command],
            capture_output=True,
            text=True,
            check=False,
        )

    def signal(self, name: str) -> None:
        subprocess.run(["runc", "--root", str(STORE / "runc"), "kill", self.name, name], check=True)

    def exit_code(self, *, seconds: float) -> int:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end within {seconds} s:\n{self.said_last()}") from None

    def said_last(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-4_000:]

    def end(self) -> None:
        if self.process.poll() is None:
            subprocess.run(
                ["runc", "--root", str(STORE / "runc"), "kill", self.name, "KILL"], capture_output=True, check=False
            )
            self.process.wait(20)


def compose_environ(given: Mapping[str, Any]) -> dict[str, str]:
    """Its variables, as where the caller has set none of those that it may."""
    unset = {name: re.sub(r"\$\{\w+:\+[^}]*\}", "", str(value)) for name, value in given.items()}
    return {name: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value) for name, value in unset.items()}


def _image_environ(config: Mapping[str, Any]) -> dict[str, str]:
    path = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    return path | dict(line.split("=", 1) for line in config.get("Env") or ())


def _mounts(tmpfs: Sequence[str]) -> list[dict[str, Any]]:
    devices = ["nosuid", "strictatime", "mode=755", "size=65536k"]
    scratch = ["nosuid", "nodev", "noexec", "mode=1777"]
    return [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": devices},
        {"destination": SHARED_MEMORY, "type": "tmpfs", "source": "shm", "options": [*scratch, "size=65536k"]},
        {"destination": "/sys", "type": "bind", "source": "/sys", "options": ["rbind", "ro"]},
        # The name service of the machine, whose network the container shares.
        *(
            {"destination": place, "type": "bind", "source": place, "options": ["rbind", "ro"]}
            for place in ("/etc/hosts", "/etc/resolv.conf")
        ),
        *(_scratch(*place.split(":", 1), options=scratch) for place in tmpfs),
    ]


def _scratch(place: str, more: str = "", *, options: Sequence[str]) -> dict[str, Any]:
    """A place as Compose writes it, with its options behind it."""
    asked = [*options, *filter(None, more.split(","))]
    return {"destination": place, "type": "tmpfs", "source": "tmpfs", "options": asked}


def _docker_refusals() -> dict[str, Any]:
    """Of Docker's default seccomp profile what a process without CAP_SYS_ADMIN meets: no namespaces, no mounts."""
    bits = [1 << shift for shift in range(32) if NEW_NAMESPACES >> shift & 1]
    refusals = [
        {"names": list(REFUSED_BY_DOCKER), "action": "SCMP_ACT_ERRNO", "errnoRet": 1},
        {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
        *(
            {
                "names": ["clone"],
                "action": "SCMP_ACT_ERRNO",
                "errnoRet": 1,
                "args": [{"index": 0, "value": bit, "valueTwo": bit, "op": "SCMP_CMP_MASKED_EQ"}],
            }
            for bit in bits
        ),
    ]
    return {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": refusals}
