"""The one way into a workspace's timeline: a line stands in the transaction of what it tells, or right after it.

Lines are shown to the tenant: they hold ids, counts and reasons, never an environment, an address of ours or a token.
"""

import uuid
from typing import Any

from ops.workspaces.models import WorkspaceEvent


def add_to_timeline(workspace_id: uuid.UUID, kind: str, *, actor: str, **detail: Any) -> None:
    """`kind` is a CamelCase word; `detail` is JSON."""
    WorkspaceEvent.objects.create(workspace_id=workspace_id, actor=actor, kind=kind, detail=detail)
