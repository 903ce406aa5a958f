"""The daily cleanup at size: 1,000,000 rows past their period, beside traffic that reads and writes.

    make bench B=data_cleanup

It makes a database of its own and drops it. Targets: 60 s, no statement above 200 ms, and a p95 of the traffic that is
at most 1.2 times what it is alone.

One run on two cores that were ten times overbooked by others, so that the last figure says little:

    1,000,000 rows in 25.7 s, the longest statement 118 ms
    traffic p95 59.1 ms alone, 48.6 ms beside it: 0.82 times
"""

import statistics
import threading
import time
from collections.abc import Callable
from typing import Any, Self

from bench._services import own_services

ROWS = 1_000_000
ALONE_SECONDS = 10.0
PAUSE_SECONDS = 0.005
_FILL = """
INSERT INTO job_reports (job, started_at, ended_at, dry_run, host, pid, seen, changed, errors, detail)
SELECT 'bench', now() - interval '40 days' + n * interval '1 ms', now(), false, 'bench', 1, 0, 0, 0, '{}'
  FROM generate_series(1, %s) n
"""


class Traffic:
    """What a request does at least: a row by its key, and a row written and committed."""

    def __init__(self) -> None:
        self.took_ms: list[float] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _go_on(self) -> None:
        from django.db import connection, transaction

        while not self._over.wait(PAUSE_SECONDS):
            began = time.perf_counter()
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SELECT * FROM tenants WHERE tenant_id = 't_bench'")
                cursor.execute(
                    "INSERT INTO job_reports (job, started_at, dry_run, host, pid, seen, changed, errors, detail)"
                    " VALUES ('live', now(), false, 'bench', 1, 0, 0, 0, '{}')"
                )
            self.took_ms.append((time.perf_counter() - began) * 1_000)
        connection.close()

    def p95_ms(self) -> float:
        return statistics.quantiles(self.took_ms, n=20)[-1]


def measure() -> None:
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection

    from dpp_project import clock
    from dpp_project.lifecycle import cleaning

    call_command("migrate", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute(_FILL, [ROWS])
        cursor.execute("ANALYZE job_reports")
    slowest = [0.0]

    def timed(execute: Callable[..., Any], *asked: Any) -> Any:
        began = time.perf_counter()
        try:
            return execute(*asked)
        finally:
            slowest[0] = max(slowest[0], time.perf_counter() - began)

    with Traffic() as alone:
        time.sleep(ALONE_SECONDS)
    began = time.perf_counter()
    with Traffic() as beside, connection.execute_wrapper(timed):
        report = cleaning.clean_now(now=clock.now(), limit=10**9, only="job_reports")
    seconds = time.perf_counter() - began
    print(f"{report.changed:,} rows in {seconds:.1f} s, the longest statement {slowest[0] * 1_000:.0f} ms")
    ratio = beside.p95_ms() / alone.p95_ms()
    print(f"traffic p95 {alone.p95_ms():.1f} ms alone, {beside.p95_ms():.1f} ms beside it: {ratio:.2f} times")


if __name__ == "__main__":
    with own_services():
        measure()
