"""One of a thing in each process: shared by its threads, left behind by its forked children."""

import os
import threading

import pytest

from dpp_project.processes.per_process import PerProcess


def test_many_threads_that_ask_at_once_share_one() -> None:
    asked = threading.Barrier(8)
    made: list[object] = []

    def make() -> object:
        made.append(object())
        return made[-1]

    thing = PerProcess(make)
    found: list[object] = []

    def ask() -> None:
        asked.wait()
        found.append(thing())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert found == made * 8


def test_what_was_forgotten_is_handed_back_and_made_anew() -> None:
    thing = PerProcess(object)
    assert thing.forget() is None
    first = thing()
    assert thing() is first
    assert thing.forget() is first
    assert thing() is not first


def test_what_could_not_be_made_is_tried_again() -> None:
    answers: list[object] = [RuntimeError("not yet"), "made"]

    def make() -> object:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    thing = PerProcess(make)
    with pytest.raises(RuntimeError, match="not yet"):
        thing()
    assert thing() == "made"


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_child_leaves_its_parents_and_makes_its_own_even_if_the_lock_was_held() -> None:
    thing, never_made = PerProcess(object), PerProcess(object)
    mine = thing()
    with thing._lock, never_made._lock:
        child = os.fork()
        if child == 0:
            own = thing()
            os._exit(0 if own is not mine and thing() is own and never_made() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert thing() is mine
