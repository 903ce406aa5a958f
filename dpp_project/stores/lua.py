"""Lua scripts that stand in `.lua` files beside their callers."""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import redis
from redis.client import Pipeline
from redis.exceptions import NoScriptError

Argument = str | int
_INCLUDE: Final = re.compile(r"^-- include ([a-z_]+\.lua)\n", re.MULTILINE)


class LuaScript:
    """One script, called by its hash in one trip. It belongs to no client, so it may be carried over a fork.

    A server that has lost it (a restart, SCRIPT FLUSH) says NOSCRIPT and has run nothing: then it is loaded and
    called again.

    A line `-- include NAME.lua` stands for the text of that file beside it: what more than one script needs is written
    once, and the server runs each script as one text. An included file may include others.
    """

    def __init__(self, path: Path) -> None:
        self.text = _lua_text_with_includes(path)
        self._sha = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()

    def __call__(self, client: redis.Redis, *, keys: Sequence[str], args: Sequence[Argument] = ()) -> Any:
        try:
            return client.evalsha(self._sha, len(keys), *keys, *args)
        except NoScriptError:
            client.script_load(self.text)
            return client.evalsha(self._sha, len(keys), *keys, *args)

    def command(self, *, keys: Sequence[str], args: Sequence[Argument] = ()) -> tuple[Argument, ...]:
        """The call as words, for a connection that sends many at once and has loaded the script."""
        return "EVALSHA", self._sha, len(keys), *keys, *args

    def queue(self, pipeline: Pipeline, *, keys: Sequence[str], args: Sequence[Argument] = ()) -> None:
        """Put the call into a pipeline that carries other commands, with the whole text.

        EVALSHA might find the script gone, and a pipeline whose other commands have run cannot simply be sent again.
        """
        pipeline.eval(self.text, len(keys), *keys, *args)


def _lua_text_with_includes(path: Path) -> str:
    return _INCLUDE.sub(lambda line: _lua_text_with_includes(path.with_name(line[1])), path.read_text(encoding="utf-8"))
