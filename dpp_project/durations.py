"""How long something took or takes, for people. Two units are enough."""

from datetime import timedelta


def duration_text(length: timedelta) -> str:
    """Whole seconds and more: `3 h 12 min`."""
    seconds = int(length.total_seconds())
    for unit, size, lesser, part in (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= size:
            rest = seconds % size // part
            return f"{seconds // size} {unit}" + (f" {rest} {lesser}" if rest else "")
    return f"{seconds} s"


def short_span(length: timedelta) -> str:
    """Below a minute to the tenth of a second, below a second to the millisecond."""
    milliseconds = length // timedelta(milliseconds=1)
    if milliseconds < 1_000:
        return f"{milliseconds} ms"
    if milliseconds < 60_000:
        return f"{milliseconds // 1_000}.{milliseconds % 1_000 // 100} s"
    return duration_text(length)


def duration_ago(length: timedelta) -> str:
    return "just now" if length < timedelta(seconds=5) else f"{duration_text(length)} ago"
