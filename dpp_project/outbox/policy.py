"""When what failed is tried again, and when it is given up. Pure; publisher and consumers ask the same."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Retry:
    count: int
    delay_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The first delays in turn, then the last one again and again, `max_retries` in all."""

    max_retries: int
    delays_seconds: tuple[int, ...]

    def after_failure(self, retry_count: int) -> Retry | None:
        """Of what was retried so often and has failed again. None: it is given up."""
        count = retry_count + 1
        if count > self.max_retries:
            return None
        return Retry(count, self.delays_seconds[min(count, len(self.delays_seconds)) - 1])


POLICY: Final = RetryPolicy(max_retries=6, delays_seconds=(10, 60, 600))
"""The rungs of the ladder. SQS delays a message for 900 s at most."""
