"""What runs at work say of themselves, for those who follow them: one request to Redis for all, five times a second."""

from collections.abc import Iterator, Mapping
from typing import Final

from redis import RedisError

from dpp_project.processes.per_process import PerProcess
from dpp_project.stores import redis
from dpp_project.waiting.watcher import News, Watcher
from runs import progress
from runs.progress import EntryId

LOOK_SECONDS: Final = 0.2


def said_after(seen: Mapping[str, EntryId]) -> Iterator[News]:
    for run_id, mark, said in progress.progress_after(redis.redis_client(), seen):
        yield News(run_id, mark, said)


@PerProcess
def progress_watcher() -> Watcher[EntryId]:
    """With a thread of its own: a slow Redis delays no news of a run's steps."""
    return Watcher("progress", said_after, every_seconds=LOOK_SECONDS, away=(RedisError,), rest=lambda: None)
