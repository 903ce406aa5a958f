"""What a person may do to automations' sources, each once refused and once done (see acts.py)."""

import base64
import io
import json
from typing import Any, Final

from dpp_project import encryption, env
from dpp_project.settings import ENV
from tests.gear.builders.acts import Act, Case, Scene
from tests.gear.builders.automation_world import a_github, a_hook, row
from tests.gear.builders.tenants import bearer

CASES: dict[str, Case] = {}
COMMANDS: dict[str, Case] = {}
"""Of `manage.py automations source`: acts below an act, which the rule over all commands does not see."""


def _of_source(do: str, *, said: str = "", more: tuple[str, ...] = ()) -> None:
    """By command: refused for a source that is not there."""

    def by_command(it: Scene) -> tuple[Act, Act]:
        source = a_github()
        if do == "resume":
            type(source).objects.filter(pk=source.pk).update(enabled=False, version=row(source).version + 1)
        it.monkeypatch.setattr("sys.stdin", io.StringIO(said))
        words = ("automations", "source", do)
        return lambda: it.command(*words, "nobody", *more), lambda: it.command(*words, "github", *more)

    COMMANDS[do] = by_command


for _do in ("pause", "resume", "rotate", "look"):
    _of_source(_do)
_of_source("token", said="ghp_another\n")
_of_source("change", more=("--config", '{"own_actors": ["hubot"]}'))


def _make(it: Scene) -> tuple[Act, Act]:
    words = ("automations", "source", "make", "hook", "--kind", "HOOK", "--config")
    return lambda: it.command(*words, "{}"), lambda: it.command(*words, '{"form": "github"}')


def _reencrypt(it: Scene) -> tuple[Act, Act]:
    a_hook()
    newer = base64.b64encode(b"n" * env.ENCRYPTION_KEY_BYTES).decode()
    changed = ENV.model_copy(update={"DPP_ENCRYPTION_KEYS": [newer, *ENV.DPP_ENCRYPTION_KEYS]})
    it.monkeypatch.setattr(encryption, "ENV", changed)
    words = ("automations", "source", "reencrypt")
    return lambda: it.command(*words, "--dry-run"), lambda: it.command(*words)


COMMANDS |= {"make": _make, "reencrypt": _reencrypt}


def _at_the_console(do: str) -> Case:
    """Refused for one whose events come by themselves, or by a page that is not there."""

    def by_console(it: Scene) -> tuple[Act, Act]:
        source, hook = a_github(), a_hook().source
        if do == "resume":
            type(source).objects.filter(pk=source.pk).update(enabled=False, version=row(source).version + 1)
        nobody = hook.pk if do == "look_now" else "none"
        pages = [f"automations/automationsource/{one}/{do}/" for one in (nobody, source.pk)]
        return lambda: it.post(pages[0]), lambda: it.post(pages[1])

    return by_console


def _over_the_api(do: str, body: dict[str, Any], *, method: str = "post") -> Case:
    """Refused for a source that is not there."""

    def by_api(it: Scene) -> tuple[Act, Act]:
        source = a_github() if do in {"look", "pause", "resume"} else a_hook().source
        if do == "resume":
            type(source).objects.filter(pk=source.pk).update(enabled=False, version=row(source).version + 1)

        def ask(name: str) -> None:
            answer = getattr(it.console, method)(
                f"/api/automations/sources/{name}/{do}".rstrip("/"),
                json.dumps(body),
                content_type="application/json",
                headers=bearer(it.operator),
            )
            assert answer.status_code in {200, 404}

        return lambda: ask("nobody"), lambda: ask(source.name)

    return by_api


def _made_over_the_api(it: Scene) -> tuple[Act, Act]:
    path, asked = "/api/automations/sources", {"name": "hook", "kind": "HOOK", "settings": {"form": "github"}}
    return lambda: it.call(path, asked | {"settings": {}}), lambda: it.call(path, asked)


_SOURCE: Final = "api/automations/sources/<str:source>"
CASES |= {
    "api POST api/automations/sources": _made_over_the_api,
    f"api PATCH {_SOURCE}": _over_the_api(
        "", {"settings": {"form": "github", "own_actors": ["hubot"]}}, method="patch"
    ),
    f"api POST {_SOURCE}/rotate": _over_the_api("rotate", {}),
    **{f"api POST {_SOURCE}/{do}": _over_the_api(do, {}) for do in ("pause", "resume", "look")},
}
CASES |= {f"console automations.automationsource {do}": _at_the_console(do) for do in ("pause", "resume", "look_now")}
