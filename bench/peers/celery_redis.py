"""Stock Celery on Redis, acknowledged late as with SQS. Runs in an environment of its own."""

import os
import sys
from typing import Any

import celery

from bench.peers._nothing import done

app: Any = celery.Celery("peer", broker=os.environ["BENCH_BROKER"])
app.conf.update(
    broker_connection_retry_on_startup=True,
    task_acks_late=True,
    task_ignore_result=True,
    worker_enable_remote_control=False,
)


@app.task(name="bench.nothing")
def nothing() -> None:
    done()


def main() -> None:
    if sys.argv[1] == "send":
        with app.pool.acquire(block=True) as connection:
            for _ in range(int(sys.argv[2])):
                nothing.apply_async(connection=connection)
    else:
        app.worker_main(
            ["worker", "-c", os.environ["BENCH_SLOTS"], "-P", "prefork", "--without-gossip", "--without-mingle"]
        )


if __name__ == "__main__":
    main()
