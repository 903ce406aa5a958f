"""How long to wait before starting again what ended."""

FIRST_SECONDS = 0.2
LONGEST_SECONDS = 5.0
STEADY_SECONDS = 20.0


def delay(failures: int) -> float:
    """Nothing after the first failure, then doubling: a kill is mended at once, a broken program does not spin."""
    if failures <= 1:
        return 0.0
    # Bounded before it is raised: a program that fails all night must not overflow the power.
    return min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(failures - 2, 30))


def failures_after(failures: int, *, lived_seconds: float) -> int:
    """How many failures in a row, now that a program has ended which lived this long."""
    return 1 if lived_seconds >= STEADY_SECONDS else failures + 1
