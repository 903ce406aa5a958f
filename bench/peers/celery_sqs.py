"""Stock Celery on SQS: kombu's own transport, set as well as it can be. Runs in an environment of its own."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import celery

from bench.peers._nothing import done

PORT = os.environ["BENCH_BROKER"]
app: Any = celery.Celery("peer", broker=f"sqs://test:test@127.0.0.1:{PORT}")
app.conf.update(
    broker_transport_options={
        "region": "us-east-1",
        "predefined_queues": {"runs": {"url": f"http://127.0.0.1:{PORT}/0/runs"}},
        "polling_interval": 0,
        "wait_time_seconds": 5,
        "is_secure": False,
    },
    broker_connection_retry_on_startup=True,
    task_default_queue="runs",
    task_acks_late=True,
    task_ignore_result=True,
    worker_enable_remote_control=False,
)


@app.task(name="bench.nothing")
def nothing() -> None:
    done()


def main() -> None:
    if sys.argv[1] == "send":
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda _: nothing.delay(), range(int(sys.argv[2]))))
    else:
        pool = os.environ.get("BENCH_POOL", "prefork")
        app.worker_main(["worker", "-c", os.environ["BENCH_SLOTS"], "-P", pool, "--without-gossip", "--without-mingle"])


if __name__ == "__main__":
    main()
