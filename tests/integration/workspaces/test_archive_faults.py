"""S3 that loses an answer, refuses, lies, hangs or breaks off: nothing is believed that was not seen, nothing lost."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypedDict
from urllib.parse import urlsplit

import pytest

from dpp_project.aws import clients
from dpp_project.settings import ENV
from ops.workspaces.archive_store.archives import SentArchive
from ops.workspaces.archive_store.store import ArchiveStore
from ops.workspaces.drivers.base import DriverUnavailable
from tests.gear.builders import archives
from tests.gear.builders.archives import OURS, PART_BYTES, export, ignore, new_key, small_home
from tests.gear.builders.recovery import Died
from tests.gear.faults.proxy import Mode, Proxy
from tests.gear.faults.scripted import Scripted

pytestmark = [pytest.mark.contract("WSP-07"), pytest.mark.usefixtures("aws")]


class Call(TypedDict):
    """Which of our requests to S3 is meant, as `Scripted` tells them apart."""

    only: str
    holding: bytes


CREATE = Call(only="POST", holding=b"?uploads")
PART = Call(only="PUT", holding=b"partNumber=")
COMPLETE = Call(only="POST", holding=b"uploadId=")
HEAD = Call(only="HEAD", holding=b"home.tar.zst")
GET = Call(only="GET", holding=b"")
ABORT = Call(only="DELETE", holding=b"uploadId=")
EVERY_TIME = 1_000
IN_A_200 = b'<?xml version="1.0"?><Error><Code>InternalError</Code><Message>We are sorry.</Message></Error>'


@pytest.fixture(scope="module")
def script() -> Iterator[Scripted]:
    with Scripted(str(ENV.S3_ENDPOINT_URL)).running() as running:
        yield running


@pytest.fixture(scope="module")
def broken(script: Scripted) -> ArchiveStore:
    """A store that reaches the bucket through `script`."""
    return archives.store(clients.new_s3(script.url))


@pytest.fixture
def direct() -> ArchiveStore:
    return archives.store()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return small_home(tmp_path / "home")


def upload(store: ArchiveStore, key: str, home: Path) -> SentArchive | None:
    return store.upload(key, OURS, export(home), opened=ignore)


def is_whole(store: ArchiveStore, key: str, sent: SentArchive | None) -> None:
    assert sent is not None
    assert store.verify(key, OURS, sent).sha256 == sent.sha256


@pytest.mark.parametrize("call", [PART, COMPLETE], ids=["part", "complete"])
@pytest.mark.parametrize("times", [1, EVERY_TIME])
def test_an_answer_that_is_lost_is_asked_for_again_or_looked_up(
    times: int, call: Call, script: Scripted, broken: ArchiveStore, direct: ArchiveStore, home: Path
) -> None:
    key = new_key()
    with script.losing(times, **call):
        if (times, call) == (EVERY_TIME, PART):
            with pytest.raises(DriverUnavailable):
                upload(broken, key, home)
            assert direct.look(key) is None
        else:
            is_whole(direct, key, upload(broken, key, home))
    assert script.lost >= 1
    assert direct.list_uploads(key) == []


def test_an_upload_whose_id_is_lost_is_found_by_its_key(
    script: Scripted, broken: ArchiveStore, direct: ArchiveStore, home: Path
) -> None:
    key = new_key()
    with script.losing(1, **CREATE):
        is_whole(direct, key, upload(broken, key, home))
    (orphan,) = direct.list_uploads(key)
    assert direct.abort_upload(key, orphan.upload_id)
    assert not direct.abort_upload(key, orphan.upload_id)
    assert direct.list_uploads(key) == []
    with script.losing(EVERY_TIME, **CREATE), pytest.raises(DriverUnavailable):
        upload(broken, new_key(), home)


def test_a_completion_that_nothing_confirms_is_found_by_the_next_attempt(
    script: Scripted, direct: ArchiveStore, home: Path
) -> None:
    """Its answer is lost each time, and so is that of every look: nobody knows. The object lies there."""
    key = new_key()
    with Scripted(script.url).running() as outer, script.answering(500, **HEAD):
        with outer.losing(EVERY_TIME, **COMPLETE), pytest.raises(DriverUnavailable, match="HeadObject"):
            upload(archives.store(clients.new_s3(outer.url)), key, home)
        assert outer.lost == 2
    assert upload(direct, key, home) is None
    assert direct.verify(key, OURS, None).members == 6
    assert direct.list_uploads(key) == []


@pytest.mark.parametrize("call", [CREATE, PART, COMPLETE], ids=["create", "part", "complete"])
@pytest.mark.parametrize("status", [403, 404, 409, 500, 503])
def test_a_call_that_is_refused_ends_the_upload_and_leaves_nothing(
    status: int, call: Call, script: Scripted, broken: ArchiveStore, direct: ArchiveStore, home: Path
) -> None:
    key = new_key()
    with script.answering(status, IN_A_200, **call), pytest.raises(DriverUnavailable):
        upload(broken, key, home)
    assert direct.look(key) is None
    assert direct.list_uploads(key) == []


@pytest.mark.parametrize("body", [IN_A_200, b"", b"<Complete", b"<CompleteMultipartUploadResult/>"])
def test_a_completion_that_answers_200_and_did_nothing_is_not_believed(
    body: bytes, script: Scripted, broken: ArchiveStore, direct: ArchiveStore, home: Path
) -> None:
    key = new_key()
    with script.answering(200, body, **COMPLETE), pytest.raises(DriverUnavailable):
        upload(broken, key, home)
    assert direct.look(key) is None
    assert direct.list_uploads(key) == []


def test_an_upload_that_fails_waits_for_the_parts_on_their_way(direct: ArchiveStore, tmp_path: Path) -> None:
    """One that came in after the abort would be kept, and paid for."""
    far, key = urlsplit(str(ENV.S3_ENDPOINT_URL)), new_key()
    at_abort: list[list[str]] = []

    def note(**_: object) -> None:
        at_abort.append([one.name for one in threading.enumerate() if one.name.startswith("archive-part")])

    def progress(tar_bytes: int) -> None:
        if tar_bytes > 1 << 20:
            raise InterruptedError

    with Proxy(str(far.hostname), int(far.port or 80)) as proxy:
        client = clients.new_s3(proxy.url)
        client.meta.events.register("before-send.s3.AbortMultipartUpload", note)
        proxy.delay(ms=20)
        with pytest.raises(InterruptedError):
            archives.store(client, part_bytes=256 << 10).upload(
                key,
                OURS,
                export(small_home(tmp_path / "large", noise_bytes=3 << 20)),
                opened=ignore,
                progress=progress,
            )
    assert at_abort == [[]]
    assert direct.look(key) is None


def test_an_abort_that_fails_hides_nothing_and_leaves_an_upload_to_find(
    script: Scripted, broken: ArchiveStore, direct: ArchiveStore, home: Path
) -> None:
    key = new_key()
    told: list[str] = []

    def progress(_bytes: int) -> None:
        raise InterruptedError

    with script.answering(503, **ABORT), pytest.raises(InterruptedError):
        broken.upload(key, OURS, export(home), opened=told.append, progress=progress)
    assert [one.upload_id for one in direct.list_uploads(key)] == told
    assert direct.abort_upload(key, told[0])


@pytest.mark.parametrize("status", [400, 403, 500, 503])
def test_a_look_that_is_refused_is_no_absence(status: int, script: Scripted, broken: ArchiveStore, home: Path) -> None:
    key = new_key()
    for call in (HEAD, GET):
        with script.answering(status, IN_A_200, **call), pytest.raises(DriverUnavailable):
            broken.look(key) if call is HEAD else broken.verify(key, OURS, None)
    assert broken.look(key) is None


def test_a_look_whose_answer_is_lost_is_asked_again_and_then_given_up(script: Scripted, broken: ArchiveStore) -> None:
    key = new_key()
    with script.losing(1, **HEAD):
        assert broken.look(key) is None
    with script.losing(EVERY_TIME, **HEAD), pytest.raises(DriverUnavailable):
        broken.look(key)


def test_a_bucket_that_is_not_there_makes_nothing_absent(home: Path) -> None:
    away = ArchiveStore(clients.s3_client(ENV.S3_ENDPOINT_URL), f"{ENV.DPP_ARCHIVE_BUCKET}-no", part_bytes=PART_BYTES)
    asked: tuple[Callable[[], object], ...] = (
        lambda: away.look("a"),
        lambda: away.verify("a", OURS, None),
        lambda: away.list_archives(""),
        lambda: away.delete("a"),
        lambda: upload(away, "a", home),
    )
    for ask in asked:
        with pytest.raises(DriverUnavailable):
            ask()


REQUESTS = 5
"""Of an upload of three parts: it is opened, sent, completed."""


class Death:
    """A process dies at its request number `at` (from 0), before it is sent or after it was answered."""

    def __init__(self, *, at: int, event: str) -> None:
        self.client = clients.new_s3(ENV.S3_ENDPOINT_URL)
        self.client.meta.events.register("before-call.s3", self._before)
        self.client.meta.events.register("after-call.s3", self._after)
        self.sent: list[str] = []
        self._at = at
        self._event = event
        self._dead = False
        self._lock = threading.Lock()

    def _before(self, model: Any, **_: object) -> None:
        with self._lock:
            self._dead = self._dead or (self._event == "before" and len(self.sent) == self._at)
            if self._dead:
                raise Died
            self.sent.append(model.name)

    def _after(self, model: Any, **_: object) -> None:
        with self._lock:
            self._dead = self._dead or (self._event == "after" and len(self.sent) > self._at)
            if self._dead:
                raise Died


@pytest.mark.parametrize("event", ["before", "after"])
@pytest.mark.parametrize("at", range(REQUESTS))
def test_whatever_a_death_leaves_the_next_attempt_ends_with_one_whole_archive(
    at: int, event: str, direct: ArchiveStore, home: Path
) -> None:
    key = new_key()
    told: list[str] = []
    death = Death(at=at, event=event)
    with pytest.raises(Died):
        archives.store(death.client).upload(key, OURS, export(home), opened=told.append)
    is_there = (at, event) == (REQUESTS - 1, "after")
    assert direct.holds(key, OURS) is is_there
    left = [one.upload_id for one in direct.list_uploads(key)]
    if at == 0:
        assert (told, len(left)) == ([], 1 if event == "after" else 0)
    else:
        assert (len(told), left) == (1, [] if is_there else told)
    sent = upload(direct, key, home)
    assert (sent is None) is is_there
    assert direct.verify(key, OURS, sent).members == 6
    for upload_id in left:
        assert direct.abort_upload(key, upload_id)
    assert direct.list_uploads(key) == []
    assert [one.key for one in direct.list_archives(key)] == [key]


@pytest.fixture
def proxied(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Proxy, ArchiveStore]]:
    """With a client that waits for a fifth of a second, once."""
    monkeypatch.setattr(clients, "S3_READ_SECONDS", 0.2)
    far = urlsplit(str(ENV.S3_ENDPOINT_URL))
    with Proxy(str(far.hostname), int(far.port or 80)) as proxy:
        yield proxy, archives.store(clients.new_s3(proxy.url, attempts=1))


def test_a_body_that_breaks_off_is_unavailable_and_not_corrupt(
    proxied: tuple[Proxy, ArchiveStore], direct: ArchiveStore, home: Path
) -> None:
    proxy, store = proxied
    key = new_key()
    sent = upload(direct, key, home)
    assert sent is not None
    verified = direct.verify(key, OURS, sent)
    for cut in (PART_BYTES, sent.object_bytes // 2):
        for read in (lambda: store.verify(key, OURS, sent), lambda: b"".join(store.read(key, verified))):
            proxy.cut_after(cut)
            with pytest.raises(DriverUnavailable):
                read()
    proxy.cut_after(None)
    assert direct.verify(key, OURS, sent) == verified


@pytest.mark.parametrize("mode", [Mode.REFUSE, Mode.RESET, Mode.BLACK_HOLE])
def test_while_s3_is_away_each_call_ends_as_unavailable(
    mode: Mode, proxied: tuple[Proxy, ArchiveStore], direct: ArchiveStore, home: Path
) -> None:
    proxy, store = proxied
    key = new_key()

    asked: tuple[Callable[[], object], ...] = (
        lambda: store.look(key),
        lambda: store.verify(key, OURS, None),
        lambda: store.list_uploads(key),
        lambda: store.abort_upload(key, "x"),
        lambda: store.delete(key),
        lambda: upload(store, key, home),
        lambda: store.upload(key, OURS, export(home), opened=lambda _: proxy.set(mode)),
    )
    for ask in asked[:-1]:
        with proxy.outage(mode), pytest.raises(DriverUnavailable):
            ask()
    with pytest.raises(DriverUnavailable):
        asked[-1]()
    proxy.set(Mode.PASS)
    for orphan in direct.list_uploads(key):
        assert direct.abort_upload(key, orphan.upload_id)
    assert direct.look(key) is None
    is_whole(direct, key, upload(direct, key, home))
