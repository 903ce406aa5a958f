"""The interface of a pack, and the object it works with. No pack sees the database, Redis, the queue or a key."""

import enum
import re
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel, JsonValue

if TYPE_CHECKING:  # 4 MB that most packs need not have, and each fork would map
    from dpp_project.outbound.connecting import Rules
    from dpp_project.outbound.exchanging import OutboundAnswer, OutboundRequest

MEBIBYTE = 1_048_576
FILE_NAME_LENGTH_MAX = 120
ARTIFACTS_MAX = 100
REHEARSE_EXAMPLE: Final = "example"
WITHHELD: Final = "https://withheld.invalid"
"""For an address that is the operator's business: a URL, so that what reads it still can."""
CONNECTIONS_AT_ONCE_MAX: Final = 30
AT_ONE_HOST_MAX: Final = 5
"""Connections that one run has at one host: it is no load test."""

Inputs = TypeVar("Inputs", bound=BaseModel)


class PackFailed(Exception):  # noqa: N818  an outcome a pack chooses, told to the tenant
    """The pack cannot do this. `detail` is shown to the tenant, so it quotes no secret and no other tenant's data."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class EngineUnavailable(Exception):  # noqa: N818  an outcome, told to the operator
    """An engine or a data file is missing; nothing is charged."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class HoldExhausted(Exception):  # noqa: N818  an outcome: the work stops before it costs more than is held
    """The next charge would pass the hold. Earlier charges stand."""


class Meter:
    """Adds up what the work costs. It refuses a charge that would pass the hold, before the work behind it is done."""

    def __init__(self, *, ceiling_micros: int, on_charge: Callable[["Meter"], None] = lambda _meter: None) -> None:
        self._ceiling_micros = ceiling_micros
        self._on_charge = on_charge
        self._spent_micros = 0
        self._tokens = 0
        self._charged = False

    def charge(self, micros: int, *, tokens: int = 0) -> None:
        """Charge before doing. Charging 0 is how a pack says that its work is free."""
        if isinstance(micros, bool) or not isinstance(micros, int) or micros < 0 or tokens < 0:
            raise ValueError("a charge is a whole number of micros, not below zero")
        if micros > self.left_micros:
            raise HoldExhausted
        self._spent_micros += micros
        self._tokens += tokens
        self._charged = True
        self._on_charge(self)

    @property
    def left_micros(self) -> int:
        return self._ceiling_micros - self._spent_micros

    @property
    def spent_micros(self) -> int:
        return self._spent_micros

    @property
    def tokens(self) -> int:
        return self._tokens

    @property
    def was_charged(self) -> bool:
        """False means that the pack reported no cost at all, which may not settle at zero silently (DPP-36)."""
        return self._charged


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """A file beside the envelope."""

    name: str
    content: bytes
    content_type: str


def is_file_name(name: str) -> bool:
    """Whether the name may follow a run's prefix in the bucket."""
    return 0 < len(name) <= FILE_NAME_LENGTH_MAX and name.isprintable() and name[0] != "." and "/" not in name


_WORD: Final = r"[a-z0-9!#$&^_.+-]{1,60}"
_CONTENT_TYPE: Final = re.compile(rf"{_WORD}/{_WORD}(; ?{_WORD}=[\w.-]{{1,40}}){{0,3}}", re.IGNORECASE | re.ASCII)


def is_content_type(text: str) -> bool:
    """Whether it may stand in a header, as it is."""
    return _CONTENT_TYPE.fullmatch(text) is not None


@dataclass(frozen=True, kw_only=True)
class CommandAsked:
    """What a run wants done in a workspace of its tenant. Its worker reads it from the run, never from the job."""

    workspace_id: str
    argv: tuple[str, ...]
    stdin: bytes
    deadline_seconds: float


class CommandEnd(enum.Enum):
    EXITED = "exited"
    DEADLINE = "deadline"
    KILLED = "killed"


@dataclass(frozen=True, kw_only=True)
class CommandResult:
    end: CommandEnd
    exit_code: int | None
    stdout: bytes
    stderr: bytes
    stdout_cut: bool
    stderr_cut: bool
    seconds: float


class WorkspaceCommand(Protocol):
    """One run's command, at the worker: begun once. Raises EngineUnavailable."""

    async def run(self, *, seconds: float) -> CommandResult: ...
    async def stop(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Reach:
    """The world as a pack's jobs reach it, through their worker. It stays with the worker: it may hold a key."""

    rules: "Rules | None" = None
    """Jobs may have connections to URLs of their own, by these rules."""
    asks: "OutboundRequest | None" = None
    """Jobs may send bodies to this address of the operator's, and have the answers."""
    command: WorkspaceCommand | None = None
    """The job may begin its run's own command."""


def reach_nowhere(_environ: Mapping[str, str]) -> Reach | None:
    """The reach of a pack that asks its worker for nothing."""
    return None


class Outbound(Protocol):
    """What a job asks its worker for, in an asyncio loop. Raises Refused."""

    def connection(self, url: str, *, seconds: float) -> AbstractAsyncContextManager[socket.socket]:
        """A connection to the checked host of this URL; over when the context is."""

    async def ask(self, body: bytes, *, seconds: float) -> "OutboundAnswer":
        """What the pack's own engine answers."""


class CommandCalls(Protocol):
    """What a job asks its worker for where its pack runs a command."""

    async def command(self, *, seconds: float) -> CommandResult:
        """The run's own command, from its beginning to its end. Raises EngineUnavailable."""

    def stop_command(self) -> None:
        """`command` then answers KILLED, with what was written until then."""


@dataclass(frozen=True, kw_only=True)
class Price:
    """One line of a price list. `micros` for each `unit`."""

    unit: str
    micros: int
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class PriceList:
    """Prices under a name. A list whose prices change takes another version, since runs are held under this one."""

    version: str
    lines: tuple[Price, ...]

    def micros(self, unit: str) -> int:
        """What each such unit costs. Raises LookupError where the list has not exactly one line of it."""
        found = [line.micros for line in self.lines if line.unit == unit]
        if len(found) != 1:
            raise LookupError(f"version {self.version!r} of the price list has {len(found)} lines of {unit!r}")
        return found[0]


@dataclass(kw_only=True)
class Work(Generic[Inputs]):
    """One run as its pack sees it."""

    run_id: str
    inputs: Inputs
    artifacts_wanted: Mapping[str, bool]
    deadline: float
    """On time.monotonic()'s scale. The box kills at the timebox; a pack that ends before keeps its partial result."""
    meter: Meter
    prices: PriceList = PriceList(version="", lines=())
    """The one that the run was accepted under, where the pack still has it: what is charged goes by this."""
    fetch_upload: Callable[[str], bytes]
    """Returns the tenant's own uploaded file by its key; the box refuses any other key."""
    outbound: Outbound
    commands: CommandCalls | None = None
    """Of a pack that runs a command."""
    log: Callable[..., None] = lambda *_args, **_kwargs: None
    """Event name and plain values. Inputs do not belong here."""
    tell: Callable[..., None] = lambda *_args, **_kwargs: None
    """How far it is, for the tenant who waits: `percent`, `note`, `line` (output, with its line ends). As often as it
    likes; what comes faster than five times a second is put together, and what it has charged goes with it."""
    discard_log: list[dict[str, JsonValue]] = field(default_factory=list)
    blocked_log: list[dict[str, JsonValue]] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)
    reliability: float | None = None
    """A pack's own score of its result, 0 to 1, shown beside the minimum asked for. It touches no money."""

    def seconds_left(self) -> float:
        return max(0.0, self.deadline - time.monotonic())

    def add_artifact(self, name: str, content: bytes, content_type: str) -> None:
        if not is_file_name(name) or any(name == other.name for other in self.artifacts):
            raise ValueError(f"not a fresh, plain file name: {name!r}")
        if not is_content_type(content_type):
            raise ValueError(f"not a content type: {content_type!r}")
        if len(self.artifacts) == ARTIFACTS_MAX:
            raise ValueError(f"more than {ARTIFACTS_MAX} files")
        self.artifacts.append(Artifact(name=name, content=content, content_type=content_type))


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The least and most that these inputs can cost, before the hold caps it."""

    least_micros: int
    most_micros: int


@dataclass(frozen=True, kw_only=True)
class Pack(Generic[Inputs]):
    """One kind of work: what it reads, what it costs, how it is done."""

    name: str
    summary: str
    inputs: type[Inputs]
    prices: Sequence[Price]
    estimate: Callable[[Inputs], Estimate]
    execute: Callable[[Work[Inputs]], dict[str, JsonValue]]
    """Answers the envelope's `data`. Runs in the box: it may use its time, its memory, its meter, and nothing else."""
    example: Mapping[str, Any]
    """Inputs that work, for the documentation and its test."""
    result: type[BaseModel] | None = None
    """What `execute` answers: callers' code is made from it. A member that may be missing has a default."""
    price_version: str = "1"
    """Of `prices`; another for each change of them."""
    earlier_prices: Mapping[str, Sequence[Price]] = field(default_factory=dict)
    """Older lists by version, as long as runs may be held under them: a run waits an hour at most."""
    artifacts: tuple[str, ...] = ()
    """Names of the optional artifacts (`include_markdown`) that a request may ask this pack for."""
    memory_bytes: int = 512 * MEBIBYTE
    reach: Callable[[Mapping[str, str]], Reach | None] = reach_nowhere
    """What its jobs may reach, by the worker's environment. A job has no network of its own."""
    environment: tuple[str, ...] = ()
    """Names of the environment variables that its jobs read. The box has no others."""
    withheld: tuple[str, ...] = ()
    """Names of those that its jobs see as WITHHELD where they are set."""
    preload: tuple[str, ...] = ()
    """Modules that only its execution needs, loaded once where packs are forked from and never in the API."""
    rehearsal: Literal["example"] | Callable[[], object] | None = None
    """Done once in the process that runs are forked from, so that no run pays for first times: the example, where the
    pack needs neither network nor upload, or a little local work. Five seconds; no thread, child or file may stay."""
    uploads: Callable[[Mapping[str, Any]], Mapping[str, str]] = lambda _inputs: {}
    """The tenant's files that these inputs name: field to key. One that is not there is refused at submit."""
    command: Callable[[dict[str, Any]], CommandAsked] | None = None
    """The command in a workspace that these inputs name, for a pack that runs one."""
    least_timebox: Callable[[Inputs], int] = lambda _inputs: 1
    """The shortest timebox, in seconds, in which these inputs can be done; a shorter one is refused at submit."""
    missing: Callable[[], Sequence[str]] = tuple
    """The things to install before this pack can work, each with how; empty means ready."""

    def __post_init__(self) -> None:
        if not self.price_version or self.price_version in self.earlier_prices:
            raise ValueError(f"{self.name}: price_version {self.price_version!r} is empty, or one of earlier_prices")

    def price_list(self, version: str | None) -> PriceList:
        """That version, or the newest where the pack has it no more."""
        if version is not None and version in self.earlier_prices:
            return PriceList(version=version, lines=tuple(self.earlier_prices[version]))
        return PriceList(version=self.price_version, lines=tuple(self.prices))

    def job_environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        shown = {name: environ[name] for name in self.environment if name in environ}
        return shown | {name: WITHHELD for name in self.withheld if environ.get(name)}
