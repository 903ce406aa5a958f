"""What the API can be asked, each as a plan."""

import hashlib
import json
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from pathlib import PurePath
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote

from dpp.documents import (
    ApiKey,
    Budget,
    Document,
    Entry,
    Pack,
    Receipt,
    Run,
    RunSummary,
    Usage,
    document_of,
)
from dpp.errors import (
    ApiError,
    ConfigurationError,
    ConflictError,
    ConnectionLostError,
    CorruptDownloadError,
    GoneError,
    NotFoundError,
    UnexpectedAnswerError,
    WaitTimeoutError,
)
from dpp.exchange import Answer, Ask, Lost, Pause, Plan, exchange_backoff, plan_exchange

WAIT_SECONDS_MAX: Final = 55
ANSWER_SECONDS: Final = 30.0
CONTENT_TYPES: Final = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".webp": "image/webp",
    ".bmp": "image/bmp",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
    ".pdf": "application/pdf",
    ".txt": "text/plain",
    ".csv": "text/csv",
    ".json": "application/json",
}
_AT_ONCE_SECONDS: Final = 0.5
"""A wait that ends sooner, with a run that goes on, was not waited: its server stops."""

D = TypeVar("D", bound=Document)


@dataclass(frozen=True)
class Page(Generic[D]):
    items: list[D]
    next_cursor: str | None


@dataclass(frozen=True)
class Submit:
    """One purchase: its key is made here, once, and goes with every repetition."""

    body: bytes
    key: str

    @classmethod
    def of(
        cls,
        pack_type: str,
        inputs: Mapping[str, Any],
        *,
        max_cost_usd: Decimal | str | int,
        timebox_sec: int | None = None,
        min_reliability_score: float | None = None,
        inline: bool = False,
        metadata: Mapping[str, str] | None = None,
        artifacts: Iterable[str] = (),
        priority: int | None = None,
        concurrency_key: str | None = None,
        idempotency_key: str | None = None,
    ) -> "Submit":
        reservation: dict[str, Any] = {"max_cost_usd": written_usd(max_cost_usd)}
        if timebox_sec is not None:
            reservation["timebox_sec"] = timebox_sec
        if min_reliability_score is not None:
            reservation["min_reliability_score"] = min_reliability_score
        body: dict[str, Any] = {"pack_type": pack_type, "inputs": dict(inputs), "reservation": reservation}
        options = {"inline": 1 if inline else None, "priority": priority, "concurrency_key": concurrency_key}
        if given := {name: value for name, value in options.items() if value is not None}:
            body["options"] = given
        if metadata:
            body["metadata"] = dict(metadata)
        if wanted := dict.fromkeys(artifacts, True):
            body["artifacts"] = wanted
        key = new_key() if idempotency_key is None else idempotency_key
        if not re.fullmatch(r"[!-~]{8,64}", key):
            raise ConfigurationError("idempotency_key: 8 to 64 characters of visible ASCII")
        return cls(_written(body), key)


def new_key() -> str:
    return f"py-{secrets.token_hex(16)}"


def written_usd(amount: Decimal | str | int) -> str:
    """With the four decimals that the API takes. Never rounded: an amount that needs more is refused."""
    if isinstance(amount, bool) or not isinstance(amount, Decimal | str | int):
        raise ConfigurationError('max_cost_usd: a Decimal or a string such as "0.25"; a float is no amount of money')
    try:
        value = Decimal(amount)
        exact = value.quantize(Decimal("0.0001"))
    except InvalidOperation:
        raise ConfigurationError('max_cost_usd: an amount such as "0.25"') from None
    if exact != value or value <= 0:
        raise ConfigurationError("max_cost_usd: above zero, with four decimals at most")
    return f"{exact:f}"


def _written(body: Any) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"inputs: no JSON can be made of them ({error})") from None


@dataclass(frozen=True)
class Operations:
    retries: int

    def submit(self, asked: Submit, *, wait: int | None = None) -> Plan[Receipt]:
        ask = Ask(
            "POST",
            "/v1/runs",
            () if wait is None else (("wait", str(wait)),),
            {"Idempotency-Key": asked.key, "Content-Type": "application/json"},
            asked.body,
            None if wait is None else wait + ANSWER_SECONDS,
        )
        answer = yield from plan_exchange(ask, retries=self.retries, key=asked.key)
        replayed = answer.headers.get("idempotent-replayed") == "true"
        return document_of(Receipt, answer.document(), idempotency_key=asked.key, replayed=replayed)

    def submit_and_wait(self, asked: Submit, *, timeout: float | None) -> Plan[Run]:
        ends = None if timeout is None else time.monotonic() + timeout
        receipt = yield from self.submit(asked, wait=_seconds_to_wait(ends))
        if receipt.run is not None and receipt.run.ended:
            return receipt.run
        return (yield from self._wait_until(receipt.run_id, ends))

    def wait(self, run_id: str, *, timeout: float | None) -> Plan[Run]:
        return (yield from self._wait_until(run_id, None if timeout is None else time.monotonic() + timeout))

    def _wait_until(self, run_id: str, ends: float | None) -> Plan[Run]:
        turn = 0
        while True:
            if (seconds := _seconds_to_wait(ends)) is None:
                run = yield from self.get(run_id)
            else:
                began = time.monotonic()
                ask = Ask("GET", run_path(run_id), (("wait", str(seconds)),), seconds=seconds + ANSWER_SECONDS)
                answer = yield from plan_exchange(ask, retries=self.retries)
                run = document_of(Run, answer.document())
            if run.ended:
                return run
            if seconds is None or (ends is not None and time.monotonic() >= ends):
                raise WaitTimeoutError(run.run_id)
            if (asked := answer.headers.get("retry-after")) is not None and asked.isdigit():
                yield Pause(_within(ends, float(asked)))
            elif time.monotonic() - began < min(_AT_ONCE_SECONDS, seconds):
                yield Pause(_within(ends, exchange_backoff(min(turn, 3))))
                turn += 1

    def get(self, run_id: str) -> Plan[Run]:
        return document_of(Run, (yield from self._read(run_path(run_id))))

    def cancel(self, run_id: str) -> Plan[Run]:
        ask = Ask("POST", f"{run_path(run_id)}/cancel")
        try:
            return document_of(Run, (yield from plan_exchange(ask, retries=self.retries)).document())
        except ConflictError as error:
            if not error.repeated:
                raise
            run = yield from self.get(run_id)  # the try before this one may have canceled it
            if run.result is None or run.result.reason_code != "CANCELED_BY_OWNER":
                raise
            return run

    def delete_data(self, run_id: str) -> Plan[None]:
        yield from plan_exchange(Ask("DELETE", f"{run_path(run_id)}/data"), retries=self.retries)

    def runs(self, cursor: str | None, filters: Mapping[str, Any]) -> Plan[Page[RunSummary]]:
        return (yield from self._page("/v1/runs", "runs", RunSummary, cursor, filters))

    def entries(self, cursor: str | None, filters: Mapping[str, Any]) -> Plan[Page[Entry]]:
        return (yield from self._page("/v1/budget/entries", "entries", Entry, cursor, filters))

    def keys(self, cursor: str | None, filters: Mapping[str, Any]) -> Plan[Page[ApiKey]]:
        return (yield from self._page("/v1/keys", "keys", ApiKey, cursor, filters))

    def budget(self) -> Plan[Budget]:
        return document_of(Budget, (yield from self._read("/v1/budget")))

    def usage(self, filters: Mapping[str, Any]) -> Plan[Usage]:
        return document_of(Usage, (yield from self._read("/v1/usage", _params(filters))))

    def packs(self) -> Plan[list[Pack]]:
        found = yield from self._read("/v1/packs")
        listed = found.get("packs") if isinstance(found, dict) else None
        if not isinstance(listed, list):
            raise UnexpectedAnswerError("the answer is no list of packs")
        return [document_of(Pack, one) for one in listed]

    def download(self, run_id: str, artifact: str | None) -> Plan[bytes]:
        """Asks for the address anew where an old one was refused: it lives ten minutes."""
        for is_last in (False, True):
            run = (yield from self.get(run_id)).check()
            if run.result is None or run.result.presigned_url is None:
                raise WaitTimeoutError(run_id)
            url, sha256 = run.result.presigned_url, run.result.sha256
            if artifact is not None:
                sha256 = next((one.sha256 for one in run.artifacts or () if one.name == artifact), None)
                found = yield from self._read(f"{run_path(run_id)}/artifacts/{quote(artifact, safe='')}")
                url = document_of(_Address, found).presigned_url
            try:
                answer = yield from plan_exchange(Ask("GET", url), retries=self.retries)
            except ApiError as error:
                if is_last or error.status not in (403, 404):
                    raise _of_bucket(error) from None
                continue
            if sha256 is not None and hashlib.sha256(answer.body).hexdigest() != sha256:
                raise CorruptDownloadError(f"{artifact or 'the result'} of run {run_id} is not what its SHA-256 says")
            return answer.body
        raise AssertionError

    def upload(self, content: bytes, filename: str, content_type: str | None) -> Plan[str]:
        name = re.sub(r"[^A-Za-z0-9._-]", "_", PurePath(filename).name).lstrip(".")[-128:] or "file"
        kind = content_type or CONTENT_TYPES.get(PurePath(name).suffix.lower())
        if kind is None:
            raise ConfigurationError(
                f"content_type: give one, or a file that ends in one of {', '.join(CONTENT_TYPES)}"
            )
        asked = _written({"filename": name, "content_type": kind, "size_bytes": len(content)})
        ask = Ask("POST", "/v1/uploads", (), {"Content-Type": "application/json"}, asked)
        found = (yield from plan_exchange(ask, retries=self.retries)).document()
        room = document_of(_Room, found)
        put = Ask("PUT", room.url, (), room.headers, content)
        for turn in range(self.retries + 1):
            reply = yield put
            # 412 after a request that broke off: the file is there, for only we have its address.
            if isinstance(reply, Answer) and (reply.status // 100 == 2 or (turn > 0 and reply.status == 412)):
                return room.key
            if isinstance(reply, Answer) and reply.status < 500:
                raise _of_bucket(ApiError(reply.status, f"HTTP_{reply.status}", ""))
            yield Pause(exchange_backoff(turn))
        why = reply.why if isinstance(reply, Lost) else "an error of its own"
        raise ConnectionLostError(f"the bucket did not take the file ({why})")

    def _read(self, path: str, params: tuple[tuple[str, str], ...] = ()) -> Plan[Any]:
        return (yield from plan_exchange(Ask("GET", path, params), retries=self.retries)).document()

    def _page(
        self, path: str, member: str, kind: type[D], cursor: str | None, filters: Mapping[str, Any]
    ) -> Plan[Page[D]]:
        found = yield from self._read(path, _params({**filters, "cursor": cursor}))
        listed = found.get(member) if isinstance(found, dict) else None
        if not isinstance(listed, list):
            raise UnexpectedAnswerError(f"the answer is no page of {member}")
        return Page([document_of(kind, one) for one in listed], found.get("next_cursor"))


@dataclass(frozen=True, kw_only=True)
class _Address(Document):
    presigned_url: str


@dataclass(frozen=True, kw_only=True)
class _Room(Document):
    key: str
    url: str
    headers: dict[str, str]


def _of_bucket(error: ApiError) -> ApiError:
    """The bucket's own words are XML, and may hold the address, which is a key to the file."""
    kind = {404: NotFoundError, 410: GoneError}.get(error.status, ApiError)
    return kind(error.status, error.reason_code, "The bucket refused it.")


def run_path(run_id: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9-]{1,64}", run_id):
        raise ConfigurationError("run_id: as the receipt names it")
    return f"/v1/runs/{run_id}"


def _seconds_to_wait(ends: float | None) -> int | None:
    """None: there is no whole second left."""
    if ends is None:
        return WAIT_SECONDS_MAX
    left = int(ends - time.monotonic() + 0.999)
    return None if left < 1 else min(WAIT_SECONDS_MAX, left)


def _within(ends: float | None, seconds: float) -> float:
    return seconds if ends is None else max(0.0, min(seconds, ends - time.monotonic()))


def _params(filters: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for name, value in filters.items():
        if isinstance(value, Mapping):
            found += [(f"{name}[{key}]", str(one)) for key, one in value.items()]
        elif value is not None:
            found.append((name, _text(name, value)))
    return tuple(found)


def _text(name: str, value: Any) -> str:
    if isinstance(value, datetime) and value.tzinfo is None:
        raise ConfigurationError(f"{name}: a time needs its zone")
    return value.isoformat() if isinstance(value, date) else str(value)
