# ruff: noqa: T201  its output is the progress that a person sees
"""Migrate the database, provision queues and bucket, collect static files, seed; Django starts once for all of it.

Run as `python -m dpp_project.devstack.prepare FOLDER`. Each step is safe to repeat. `is_due` tells without Django
whether there is anything to do: most starts find everything as they left it.
"""

import hashlib
import io
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from django.core.management import CommandError

from dpp_project import env_file
from dpp_project.devstack.folder import Folder
from dpp_project.devstack.programs import REPOSITORY
from dpp_project.env_file import write_whole

SHAPING = ("*.py", "*.lua", "*.css", "*.js", "*.svg", "base.txt")
NOT_OURS = frozenset({"tests", "staticfiles", "bench", "docs", "models"})


def is_due(folder: Folder, values: Mapping[str, str]) -> bool:
    """Whether code or addresses changed since the last preparation; always true for services named from outside."""
    if values["DEVSTACK_GIVEN"] or not values["DPP_API_KEY"]:
        return True
    try:
        return (folder.root / "prepared").read_text(encoding="ascii") != preparation_fingerprint(values)
    except OSError:
        return True


def preparation_fingerprint(values: Mapping[str, str]) -> str:
    """Hash of the code that shapes data and static files, and of the addresses."""
    digest = hashlib.sha256(repr(sorted(values.items())).encode())
    for path in sorted(_shaping_files()):
        stat = path.stat()
        digest.update(f"{path}:{stat.st_size}:{stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _shaping_files() -> list[Path]:
    folders = [
        entry
        for entry in REPOSITORY.iterdir()
        if entry.is_dir() and entry.name[0] != "." and entry.name not in NOT_OURS
    ]
    return [path for folder in folders for pattern in SHAPING for path in folder.rglob(pattern)]


def _prepare_devstack_part(name: str, work: Callable[[], object]) -> None:
    began = time.monotonic()
    try:
        work()
    except CommandError as error:
        raise SystemExit(f"{name}: {error}") from None
    _print_prepared_part(name, began)


def _print_prepared_part(name: str, began: float) -> None:
    print(f"  {name} ({time.monotonic() - began:.1f} s)", flush=True)


def main() -> None:
    folder = Folder(Path(sys.argv[1]))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dpp_project.settings")
    import django

    django.setup()
    from django.core.management import call_command

    from dpp_project import demo_seed

    _prepare_devstack_part("database", lambda: call_command("migrate", interactive=False, verbosity=0))
    _prepare_devstack_part("queues and bucket", lambda: call_command("provision", stdout=io.StringIO()))
    _prepare_devstack_part("static files", lambda: call_command("collectstatic", interactive=False, verbosity=0))
    values = env_file.read_env_file(folder.env)
    began = time.monotonic()
    values |= demo_seed.seed_demo(values)
    env_file.write_env_file(folder.env, values)
    _print_prepared_part("tenant, keys and admin", began)
    write_whole(folder.root / "prepared", preparation_fingerprint(values))


if __name__ == "__main__":
    main()
