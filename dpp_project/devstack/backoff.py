"""How long to wait before restarting a program that ended."""

FIRST_SECONDS = 0.2
LONGEST_SECONDS = 5.0
STEADY_SECONDS = 20.0


def restart_delay(failures: int) -> float:
    """No delay after the first failure, then doubling: a killed program restarts at once, a broken one seldom."""
    if failures <= 1:
        return 0.0
    # Bounded before it is raised: a program that fails all night must not overflow the power.
    return min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(failures - 2, 30))


def failures_after(failures: int, *, lived_seconds: float) -> int:
    """The number of failures in a row after a program that lived this long has ended."""
    return 1 if lived_seconds >= STEADY_SECONDS else failures + 1
