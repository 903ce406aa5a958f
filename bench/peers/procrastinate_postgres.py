"""procrastinate, whose queue is a table of Postgres. Runs in an environment of its own."""

import asyncio
import os
import sys

import procrastinate

from bench.peers._nothing import done

SLOTS = int(os.environ["BENCH_SLOTS"])
app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(conninfo=os.environ["BENCH_BROKER"], min_size=SLOTS, max_size=SLOTS + 2)
)


@app.task(name="bench.nothing")
async def nothing() -> None:
    done()


async def send(count: int) -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await nothing.batch_defer_async(*({} for _ in range(count)))


async def work() -> None:
    async with app.open_async():
        await app.run_worker_async(concurrency=SLOTS)


if __name__ == "__main__":
    asyncio.run(send(int(sys.argv[2])) if sys.argv[1] == "send" else work())
