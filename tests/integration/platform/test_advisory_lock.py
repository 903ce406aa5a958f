"""Advisory locks: one session at a time, given back on every way out."""

import threading

import pytest
from django.db import connection, connections, transaction

from dpp_project.stores import advisory_lock
from tests.gear.faults.advisory_locks import held_by_another

pytestmark = pytest.mark.django_db(transaction=True)

KEY = (0x74657374, 1)  # "test"
ANOTHER = (0x74657374, 2)


def is_free(key: advisory_lock.Key = KEY) -> bool:
    """Asked by a session of its own: one's own lock can be taken twice."""
    found: list[bool] = []

    def ask() -> None:
        with advisory_lock.try_lock(key) as locked:
            found.append(locked)
        connections.close_all()

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return found == [True]


def test_a_lock_that_another_session_has_is_not_waited_for() -> None:
    with held_by_another(KEY):
        with advisory_lock.try_lock(KEY) as locked:
            assert locked is False
        assert not is_free()  # leaving what was not taken frees nothing of the other's
        with advisory_lock.try_lock(ANOTHER) as locked:
            assert locked is True
    assert is_free()


def test_a_lock_is_given_back_when_its_block_fails() -> None:
    def fail() -> None:
        with advisory_lock.try_lock(KEY) as locked:
            assert locked
            assert not is_free()
            raise RuntimeError("on the way")

    with pytest.raises(RuntimeError, match="on the way"):
        fail()
    assert is_free()


def test_a_lock_that_is_waited_for_comes_when_the_other_lets_go() -> None:
    with held_by_another(KEY) as release:
        threading.Timer(0.1, release.set).start()
        with advisory_lock.lock(KEY):
            assert release.is_set()
            assert not is_free()
    assert is_free()


def test_a_transactions_lock_ends_with_it() -> None:
    with transaction.atomic():
        advisory_lock.lock_until_commit(KEY)
        assert not is_free()
    assert is_free()


def test_a_lock_whose_session_is_lost_is_free_and_its_connection_closed() -> None:
    with advisory_lock.try_lock(KEY) as locked:
        assert locked
        with pytest.raises(Exception, match="terminat"), connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    assert connection.connection is None
    assert is_free()
