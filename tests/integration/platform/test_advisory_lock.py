"""Advisory locks: one session at a time, given back on every way out."""

import threading

import pytest
from django.db import connection, connections, transaction

from dpp_project.stores import advisory_lock
from tests.gear.faults.advisory_locks import held_by_another
from tests.gear.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

KEY = (0x74657374, 1)  # "test"
ANOTHER = (0x74657374, 2)


def is_free(key: advisory_lock.Key = KEY) -> bool:
    """Asked by a session of its own: one's own lock can be taken twice."""
    found: list[bool] = []

    def ask() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s, %s)", key)
            found.extend(cursor.fetchone())
        connections.close_all()

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return found == [True]


def test_a_lock_is_one_sessions_and_keeps_no_other_key() -> None:
    with held_by_another(KEY):
        assert not is_free()
        assert is_free(ANOTHER)
    assert is_free()


def test_a_lock_is_given_back_when_its_block_fails() -> None:
    def fail() -> None:
        with advisory_lock.advisory_lock(KEY):
            assert not is_free()
            raise RuntimeError("on the way")

    with pytest.raises(RuntimeError, match="on the way"):
        fail()
    assert is_free()


@pytest.mark.contract("HRD-01")
def test_hrd_01_a_host_that_freezes_with_a_lock_keeps_it_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its session stands and asks nothing. One that gave its lock back may be idle as long as it likes."""
    monkeypatch.setattr(advisory_lock, "HELD_IDLE_SECONDS", 1)
    with advisory_lock.advisory_lock(KEY):
        assert not is_free()
        wait_until(is_free, what="the end of the session that is silent")
    monkeypatch.undo()
    with advisory_lock.advisory_lock(KEY), connection.cursor() as cursor:
        cursor.execute("SHOW idle_session_timeout")
        assert cursor.fetchone() == ("45s",)
    with connection.cursor() as cursor:
        cursor.execute("SHOW idle_session_timeout")
        assert cursor.fetchone() == ("0",)


def test_a_lock_that_is_waited_for_comes_when_the_other_lets_go() -> None:
    with held_by_another(KEY) as release:
        threading.Timer(0.1, release.set).start()
        with advisory_lock.advisory_lock(KEY):
            assert release.is_set()
            assert not is_free()
    assert is_free()


def test_a_transactions_lock_ends_with_it() -> None:
    with transaction.atomic():
        advisory_lock.lock_until_commit(KEY)
        assert not is_free()
    assert is_free()


def test_a_lock_whose_session_is_lost_is_free_and_its_connection_closed() -> None:
    with advisory_lock.advisory_lock(KEY), pytest.raises(Exception, match="terminat"), connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    assert connection.connection is None
    assert is_free()
