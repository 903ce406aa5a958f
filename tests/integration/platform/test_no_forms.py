"""Forms and files are read under /admin/ alone, and no file is put anywhere (HRD-10)."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client, RequestFactory
from django.urls import URLPattern, URLResolver, get_resolver

from tests.gear.builders.tenants import a_key, bearer

pytestmark = [pytest.mark.contract("HRD-10"), pytest.mark.django_db, pytest.mark.usefixtures("valkey")]

ADDRESSES = (
    "/healthz",
    "/readyz",
    "/metrics",
    "/v1/openapi.json",
    "/docs/",
    "/docs/reference/",
    "/docs/search.json",
    "/docs/api/",
    "/docs/adr/",
    "/docs/problems/",
    "/",
    "/admin",
)
OF_KEYS = ("/v1/runs", "/v1/uploads", "/v1/whoami", "/v1/nothing", "/api/tickets")
FORMS_UNDER = ("admin/", "account/")


def views(patterns: list[Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from views(pattern.url_patterns, route)
        elif isinstance(pattern, URLPattern):
            yield route, pattern.callback


def test_hrd_10_no_address_outside_of_the_console_has_its_form_judged() -> None:
    judged = {route for route, view in views(get_resolver().url_patterns) if not getattr(view, "csrf_exempt", False)}
    assert judged
    assert {route for route in judged if not route.startswith(FORMS_UNDER)} == set()


def a_file() -> dict[str, Any]:
    return {"a": SimpleUploadedFile("a.bin", b"x" * 3_000_000), "b": "text"}


@pytest.mark.parametrize("path", [*ADDRESSES, *OF_KEYS, "/admin/login/"])
def test_hrd_10_a_form_with_a_file_leaves_nothing_on_the_disk(
    client: Client, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made: list[str] = []
    monkeypatch.setattr(tempfile, "NamedTemporaryFile", lambda *_args, **_more: made.append("a file"))
    client.raise_request_exception = False
    for headers in ({}, bearer(a_key())):
        assert client.post(path, data=a_file(), headers=headers).status_code in {
            200,
            302,
            400,
            401,
            403,
            404,
            405,
            413,
            415,
            422,
        }
    assert made == []
    assert list(tmp_path.iterdir()) == []


def test_hrd_10_a_file_in_a_form_is_dropped_and_its_fields_are_read() -> None:
    request = RequestFactory().post("/admin/x/", data=a_file() | {"a": SimpleUploadedFile("a", b"x")})
    assert (request.POST.dict(), dict(request.FILES)) == ({"b": "text"}, {})
