import gc

import pytest

from dpp_project.processes.loading import without_collections


def test_what_is_loaded_is_collected_neither_meanwhile_nor_later() -> None:
    frozen = gc.get_freeze_count()
    with without_collections():
        assert not gc.isenabled()
        loaded = [object]
    assert gc.isenabled()
    assert gc.get_freeze_count() > frozen
    assert not any(found is loaded for found in gc.get_objects())


def test_collections_come_back_after_a_start_that_failed() -> None:
    with pytest.raises(ImportError), without_collections():
        raise ImportError
    assert gc.isenabled()


def test_who_had_turned_them_off_before_keeps_them_off() -> None:
    gc.disable()
    try:
        with without_collections(), without_collections():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
