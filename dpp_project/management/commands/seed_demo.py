"""manage.py seed_demo FILE"""

import secrets
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from dpp_project import demo_seed, env_file


class Command(BaseCommand):
    help = (
        "Make the demo tenant, its key, an operator's key and the admin's account, and keep the secrets in FILE "
        "(KEY=VALUE, mode 0600). Safe to repeat: what FILE holds and is still good stays. Not for production."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)

    def handle(self, *_: Any, file: Path, **__: Any) -> None:
        told = env_file.read_env_file(file)
        told.setdefault("DPP_ADMIN_USER", "admin")
        told.setdefault("DPP_ADMIN_PASSWORD", secrets.token_urlsafe(12))
        env_file.write_env_file(file, told | demo_seed.seed_demo(told))
        self.stdout.write(f"keys and the admin's password are in {file}")
