"""A word to the loops that something changed, so that they need not wait for their next look.

It only speeds: the loops look again in any case, and one that was lost costs seconds.
"""

import uuid
from functools import partial
from typing import Final

import structlog
from django.db import transaction

from dpp_project.stores import redis
from dpp_project.stores.redis import RedisError

log = structlog.get_logger("dpp.workspaces")

CHANNEL: Final = "monitor:trigger"


def give_after_commit(workspace_id: uuid.UUID) -> None:
    """Once the transaction has committed; nothing where it does not."""
    transaction.on_commit(partial(give_hint, workspace_id), robust=True)


def give_hint(workspace_id: uuid.UUID | None = None) -> None:
    """None: about more than one. Who hears a hint looks at all that is due."""
    try:
        redis.redis_client().publish(CHANNEL, str(workspace_id or "all"))
    except RedisError as error:
        log.info("no hint was given, Redis is away", workspace=str(workspace_id), error=type(error).__name__)
