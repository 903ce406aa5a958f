"""How a workspace's container, volumes and archives are called, and what a name says when it is met again.

At most 63 characters of `a-z0-9-`, as DNS and Kubernetes want them. A name is never proof of ownership: a label is.
"""

import re
import uuid
from dataclasses import dataclass
from typing import Final

NAME_LENGTH_MAX: Final = 63
ATTEMPT_MAX: Final = 999_999_999
"""The longest that fits: `ws-`, 36, `-home-`, 8, `-` leave nine characters."""
_UUID: Final = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_CONTAINER: Final = re.compile(f"ws-({_UUID})")
_ARCHIVE: Final = re.compile(f"({_UUID})/({_UUID})/home\\.tar\\.zst")


@dataclass(frozen=True, slots=True)
class NamedArchive:
    """What an archive's key says of it."""

    workspace_id: uuid.UUID
    op_id: uuid.UUID


def container_name(workspace_id: uuid.UUID) -> str:
    return f"ws-{workspace_id}"


def volume_name(workspace_id: uuid.UUID, *, op_id: uuid.UUID, attempt: int) -> str:
    """A volume for each attempt: one that was given up fills what nobody reads."""
    if not 1 <= attempt <= ATTEMPT_MAX:
        raise ValueError(f"attempt must be 1 to {ATTEMPT_MAX}, is {attempt}")
    return f"ws-{workspace_id}-home-{op_id.hex[:8]}-{attempt}"


def archive_prefix(workspace_id: uuid.UUID) -> str:
    """All archives of a workspace begin with it, and those of no other."""
    return f"{workspace_id}/"


def archive_key(workspace_id: uuid.UUID, *, op_id: uuid.UUID) -> str:
    return f"{archive_prefix(workspace_id)}{op_id}/home.tar.zst"


def read_container_name(name: str) -> uuid.UUID | None:
    """Whose it is; None where the name is not one of ours."""
    found = _CONTAINER.fullmatch(name)
    return found and uuid.UUID(found[1])


def read_archive_key(key: str) -> NamedArchive | None:
    found = _ARCHIVE.fullmatch(key)
    return found and NamedArchive(uuid.UUID(found[1]), uuid.UUID(found[2]))
