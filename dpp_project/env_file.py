"""A file of KEY=VALUE lines that holds addresses, keys and passwords; a shell reads the same as we do."""

import os
import string
from collections.abc import Mapping
from pathlib import Path

_SAFE = frozenset(string.ascii_letters + string.digits + "-_.,:/@%+=")


def read_env_file(path: Path) -> dict[str, str]:
    """KEY=VALUE lines; the values are written so that a shell reads the same."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return {name: value for name, value in pairs if name}


def write_env_file(path: Path, values: Mapping[str, str]) -> None:
    """Readable by the owner only: the file holds keys and passwords."""
    for name, value in values.items():
        if not set(value) <= _SAFE:
            raise ValueError(f"{name} has characters that a shell or a reader of KEY=VALUE would take differently")
    write_whole(path, "".join(f"{name}={value}\n" for name, value in values.items()), mode=0o600)


def write_whole(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Write a file so that a reader sees the old text or the new one, never a part."""
    draft = path.with_name(path.name + ".new")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(handle, "w", encoding="utf-8") as output:
        output.write(text)
    draft.replace(path)
