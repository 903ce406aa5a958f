"""One hash of all that a tar can keep of a folder: two homes with the same hash are the same home."""

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path


def tree_hash(folder: Path) -> str:
    """Names, kinds, modes, owners, times, links, extended attributes and content, the folder's own included.

    Holes are not in it: a file filled with zeros reads the same. Nor are sockets, which tar leaves out.
    """
    whole = hashlib.sha256()
    for line in tree_lines(folder):
        whole.update(line)
        whole.update(b"\0\n")
    return whole.hexdigest()


def tree_lines(folder: Path) -> list[bytes]:
    """What is hashed, a line an entry: to be shown where two hashes differ."""
    first_names: dict[tuple[int, int], bytes] = {}
    return [_line(folder, path, first_names) for path in (folder, *sorted(_below(folder)))]


def _below(folder: Path) -> Iterator[Path]:
    for where, names, files in os.walk(folder):
        for name in names + files:
            path = Path(where) / name
            if not stat.S_ISSOCK(path.lstat().st_mode):
                yield path


def _line(folder: Path, path: Path, first_names: dict[tuple[int, int], bytes]) -> bytes:
    seen, name = path.lstat(), bytes(path.relative_to(folder))
    kind = stat.S_IFMT(seen.st_mode)
    parts = [name, f"{kind:o} {seen.st_mode & 0o7777:o} {seen.st_uid}:{seen.st_gid} {seen.st_mtime_ns}".encode()]
    if kind == stat.S_IFLNK:
        parts.append(bytes(path.readlink()))
    if kind == stat.S_IFREG:
        parts += [first_names.setdefault((seen.st_dev, seen.st_ino), name), _content(path)]
    parts += [
        attribute.encode() + b"=" + os.getxattr(path, attribute, follow_symlinks=False)
        for attribute in sorted(os.listxattr(path, follow_symlinks=False))
    ]
    return b"\0 ".join(parts)


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest().encode()
