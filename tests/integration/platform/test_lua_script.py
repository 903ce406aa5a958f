"""A Lua script costs one trip, and one that the server has lost is loaded and called again."""

from pathlib import Path

import pytest
import redis

from dpp_project.stores.lua import LuaScript
from tests.gear.round_trips import counted


@pytest.fixture
def script(tmp_path: Path) -> LuaScript:
    path = tmp_path / "append.lua"
    path.write_text("return {redis.call('APPEND', KEYS[1], ARGV[1]), 'ü' .. ARGV[1]}", encoding="utf-8")
    return LuaScript(path)


@pytest.mark.django_db
def test_a_script_is_called_in_one_trip_and_loaded_once(script: LuaScript, valkey: redis.Redis) -> None:
    valkey.script_flush()
    with counted(scripts_loaded=False) as first:
        assert script(valkey, keys=["said"], args=["once"]) == [4, "üonce"]
    assert first.redis == 3  # not there, loaded, called
    with counted(scripts_loaded=False) as second:
        assert script(valkey, keys=["said"], args=[5]) == [5, "ü5"]
    assert second.redis == 1


@pytest.mark.contract("DPP-51")
def test_dpp_51_a_script_that_the_server_has_lost_runs_once(script: LuaScript, valkey: redis.Redis) -> None:
    script(valkey, keys=["said"], args=["a"])
    valkey.script_flush()
    assert script(valkey, keys=["said"], args=["b"]) == [2, "üb"]
    assert valkey.get("said") == "ab"


def test_in_a_pipeline_a_script_needs_nothing_loaded(script: LuaScript, valkey: redis.Redis) -> None:
    valkey.script_flush()
    pipeline = valkey.pipeline(transaction=False)
    pipeline.set("said", "a")
    script.queue(pipeline, keys=["said"], args=["b"])
    assert pipeline.execute() == [True, [2, "üb"]]


def test_an_error_in_a_script_is_raised_and_not_tried_again(tmp_path: Path, valkey: redis.Redis) -> None:
    path = tmp_path / "fails.lua"
    path.write_text("redis.call('INCR', KEYS[1]) return redis.error_reply('ERR_LIMIT no')", encoding="utf-8")
    with pytest.raises(redis.ResponseError, match="ERR_LIMIT no"):
        LuaScript(path)(valkey, keys=["calls"])
    assert valkey.get("calls") == "1"


def test_a_line_that_includes_a_file_stands_for_its_text(tmp_path: Path, valkey: redis.Redis) -> None:
    tmp_path.joinpath("twice.lua").write_text("return 2 * n\n", encoding="utf-8")
    tmp_path.joinpath("double.lua").write_text(
        "local function double(n)\n-- include twice.lua\nend\n", encoding="utf-8"
    )
    path = tmp_path / "asks.lua"
    path.write_text("-- A header.\n\n-- include double.lua\nreturn double(tonumber(ARGV[1]))", encoding="utf-8")
    script = LuaScript(path)
    assert script.text.startswith("-- A header.\n\nlocal function double")
    assert script(valkey, keys=[], args=[21]) == 42


def test_a_file_that_is_to_be_included_must_be_there(tmp_path: Path) -> None:
    path = tmp_path / "asks.lua"
    path.write_text("-- include absent.lua\nreturn 1", encoding="utf-8")
    with pytest.raises(FileNotFoundError, match=r"absent\.lua"):
        LuaScript(path)
