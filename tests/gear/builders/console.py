"""The console as a person signed in sees it."""

import io
import sys

import pytest
from django.contrib.auth.models import User
from django.test import Client


@pytest.fixture
def console(db: None) -> Client:
    """Signed in as ada, who may do everything."""
    signed_in = Client()
    signed_in.force_login(User.objects.create_superuser("ada"))
    return signed_in


def page(console: Client, path: str) -> str:
    response = console.get(path)
    assert response.status_code == 200, path
    return response.content.decode()


PASSWORD = "ae-4-thirty-two"


def at_the_prompt(monkeypatch: pytest.MonkeyPatch, *names: str, password: str = PASSWORD) -> None:
    """Operators with a password, which a command then reads from its standard input, without a code."""
    for name in names:
        User.objects.create_superuser(name, password=PASSWORD)
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{password}\n\n" * 20))
