"""JSON lines for people and machines, from structlog and from the standard library alike (DPP-73).

What a caller sent, what a key is and what signs a URL never reach a line. Three nets: fields with a telling name are
masked; texts that look like a secret are masked wherever they stand; the message of an exception is kept only where
its class speaks of infrastructure, since a pack's or a validator's message may quote the input.
"""

import logging
import logging.config
import re
import sys
import traceback
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from functools import lru_cache
from types import TracebackType
from typing import Any

import structlog

from dpp_project.observe import tracing
from dpp_project.observe.log_files import LogFiles

MASK = "[redacted]"
_TELLING = re.compile(
    r"authorization|api_?key|password|secret|cookie|^inputs?$|^body$|^payload$|^token$|_token$|presigned", re.IGNORECASE
)
_SECRETS = (
    (re.compile(r"\b(dpp_[A-Za-z0-9]{8})_[A-Za-z0-9_\-]{20,}"), rf"\1_{MASK}"),
    (re.compile(r"\bwhsec_[A-Za-z0-9+/_\-]{16,}=*"), f"whsec_{MASK}"),
    (re.compile(r"(X-Amz-(?:Signature|Credential|Security-Token)=)[^&\s\"']+", re.IGNORECASE), rf"\1{MASK}"),
    (re.compile(r"(://[^:/@\s]*:)[^@/\s]+@"), rf"\1{MASK}@"),
    (re.compile(r"\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=\-]{8,}", re.IGNORECASE), rf"\1 {MASK}"),
)
# What every one of the above begins with: most texts have none of it, and each line has a dozen texts.
_SUSPECT = re.compile(r"dpp_|whsec_|x-amz-|://|bearer|basic", re.IGNORECASE)
_INFRASTRUCTURE = ("psycopg", "psycopg_pool", "redis", "botocore", "urllib3", "kombu", "django.db.utils", "pycurl")
MAX_FRAMES = 25

EventDict = MutableMapping[str, Any]


def mask_text(text: str) -> str:
    if _SUSPECT.search(text) is None:
        return text
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


@lru_cache(maxsize=1_024)
def _is_telling(name: str) -> bool:
    return _TELLING.search(name) is not None


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return mask_text(value)
    if isinstance(value, dict):
        return {key: MASK if _is_telling(str(key)) else _masked(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [_masked(item) for item in value]
    return value if isinstance(value, int | float | bool | None) else mask_text(str(value))


def redact_log_event(_logger: Any, _method: str, event: EventDict) -> EventDict:
    for key in list(event):
        event[key] = MASK if _is_telling(key) else _masked(event[key])
    return event


def _exception_document(error: BaseException) -> dict[str, Any]:
    kind = type(error)
    frames = traceback.extract_tb(error.__traceback__)[-MAX_FRAMES:]
    document: dict[str, Any] = {
        "type": f"{kind.__module__}.{kind.__qualname__}",
        "frames": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
    }
    if isinstance(error, OSError) or kind.__module__.startswith(_INFRASTRUCTURE):
        document["message"] = str(error)[:500]
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        document["cause"] = f"{type(cause).__module__}.{type(cause).__qualname__}"
    return document


ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def describe_exception(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """`exc_info` as class, place and cause; the message only of classes that cannot quote a caller."""
    info: bool | BaseException | ExcInfo | tuple[None, None, None] | None = event.pop("exc_info", None)
    if isinstance(info, BaseException):
        error: BaseException | None = info
    elif isinstance(info, tuple):
        error = info[1]
    else:
        error = sys.exc_info()[1] if info else None
    if error is not None:
        event["exception"] = _exception_document(error)
    return event


def _add_trace(_logger: Any, _method: str, event: EventDict) -> EventDict:
    if (trace_id := tracing.current_trace_id()) is not None:
        event.setdefault("trace_id", trace_id)
    return event


def _drop_unset(_logger: Any, _method: str, event: EventDict) -> EventDict:
    return {key: value for key, value in event.items() if value is not None}


def logging_configuration(*, service: str, level: str, folder: str | None = None) -> dict[str, Any]:
    """The `logging` configuration; `service` stands in every line (DPP-73). With a folder, services log there."""
    # A command's stdout is its answer, which a script may read as JSON or as a key.
    stream = "ext://sys.stderr" if service == "command" else "ext://sys.stdout"
    lines: dict[str, Any] = {"class": "logging.StreamHandler", "stream": stream}
    if folder is not None and service != "command":
        lines = {"()": LogFiles, "folder": folder}

    def add_service(_logger: Any, _method: str, event: EventDict) -> EventDict:
        event["service"] = service
        return event

    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        add_service,
        _add_trace,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "json": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": [*shared, structlog.stdlib.PositionalArgumentsFormatter()],
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    describe_exception,
                    _drop_unset,
                    redact_log_event,
                    structlog.processors.JSONRenderer(default=str, ensure_ascii=False),
                ],
            }
        },
        "handlers": {"lines": lines | {"formatter": "json"}},
        "root": {"handlers": ["lines"], "level": level},
        "loggers": {
            # Django's own request and server lines would repeat ours, and carry the whole path.
            "django.request": {"level": "CRITICAL"},
            "django.security.DisallowedHost": {"level": "CRITICAL"},
            "botocore": {"level": "WARNING"},
            "boto3": {"level": "WARNING"},
            "urllib3": {"level": "WARNING"},
        },
    }


def set_up_logging(*, service: str, level: str, folder: str | None = None) -> None:
    logging.config.dictConfig(logging_configuration(service=service, level=level, folder=folder))


def _sentence(_logger: Any, _method: str, event: EventDict) -> str:
    level, said = event.pop("level", "info"), event.pop("event", "")
    facts = " ".join(f"{name}={value}" for name, value in event.items() if name not in _FOR_MACHINES)
    return f"{level}: {said} {facts}".rstrip()


_FOR_MACHINES = frozenset({"timestamp", "logger", "service", "trace_id", "exception"})


@contextmanager
def for_people() -> Iterator[None]:
    """A command's own words say what it did: beside them stand warnings alone, each a plain line."""
    plain = structlog.stdlib.ProcessorFormatter(
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            describe_exception,
            redact_log_event,
            _sentence,
        ]
    )
    root = logging.getLogger()
    lines = [handler for handler in root.handlers if handler.get_name() == "lines"]
    before = [(handler, handler.formatter, handler.level) for handler in lines]
    for handler in lines:
        handler.setFormatter(plain)
        handler.setLevel(max(handler.level, logging.WARNING))
    try:
        yield
    finally:
        for handler, formatter, level in before:
            handler.setFormatter(formatter)
            handler.setLevel(level)
