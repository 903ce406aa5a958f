"""The console as a person signed in sees it."""

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
