"""Which layers that close a job in this machine lacks, tried in a process of its own."""

import json
import subprocess
import sys
from typing import Final

from runs.box import landlock, namespaces, readable, seccomp
from runs.box.launch import ROOT

_ASK: Final = (
    "import json, sys; sys.path.insert(0, sys.argv[1]);"
    " from runs.box import layers; print(json.dumps(layers.found_layers()))"
)
_SECONDS: Final = 20.0


def missing_layers() -> list[str]:
    """Each in words. A process of its own asks, since it makes namespaces and this one may have threads."""
    asked = subprocess.run(  # noqa: S603  ourselves
        [sys.executable, "-I", "-c", _ASK, str(ROOT)], capture_output=True, check=True, timeout=_SECONDS
    )
    lacking: list[str] = json.loads(asked.stdout)
    return lacking


def found_layers() -> list[str]:
    lacking = []
    if refused := namespaces.namespaces_refusal(readable.readable_paths(ROOT, [])):
        lacking.append(f"namespaces: {refused}")
    if (known := landlock.landlock_abi()) < landlock.SCOPES_ABI:
        lacking.append(f"Landlock that knows signals: ABI {known}, {landlock.SCOPES_ABI} is wanted")
    if not seccomp.kernel_knows_seccomp():
        lacking.append("a seccomp filter for this kind of machine")
    return lacking
