"""What every peer's task does: nothing, and one byte more in the file that counts. Standard library alone."""

import os

_counted = None


def done() -> None:
    global _counted  # noqa: PLW0603  opened by the process that works, which may be a child
    if _counted is None:
        _counted = os.open(os.environ["BENCH_DONE"], os.O_WRONLY | os.O_APPEND)
    os.write(_counted, b".")
