"""What a url run may ask: its rules narrower than ours, never wider."""

from typing import Any

import pytest

from dpp_project.http.problems import Problem
from runs.packs import url
from runs.packs.pack import Estimate
from runs.packs.url.allowance import Allowance
from runs.packs.url.inputs import UrlInputs
from runs.submit import request_body

pytestmark = pytest.mark.contract("DPP-62")
ONE = ["https://example.com/"]


def request(**inputs: Any) -> request_body.RunCreateRequest:
    body = {"pack_type": "url", "inputs": inputs, "reservation": {"max_cost_usd": "0.1000"}}
    return request_body.read_run_request(body)


def complaints(**inputs: Any) -> dict[str, str]:
    with pytest.raises(Problem) as refused:
        request(**inputs)
    return {error.field: error.detail for error in refused.value.errors}


def test_pack_url_defaults_are_the_documents() -> None:
    assert request(urls=ONE).normalised_inputs() == {
        "urls": ONE,
        "max_urls": 30,
        "fetch_timeout_sec": 10,
        "max_redirect_hops": 5,
        "block_private_ip": True,
        "allow_https_only": True,
    }


def test_pack_url_rules_may_be_narrowed() -> None:
    narrow = {"max_urls": 1, "fetch_timeout_sec": 1, "max_redirect_hops": 0, "block_private_ip": True}
    assert request(urls=ONE, **narrow).normalised_inputs() == {"urls": ONE, "allow_https_only": True} | narrow


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("max_urls", 31, "may be made smaller, not larger than 30 URLs"),
        ("fetch_timeout_sec", 11, "may be made smaller, not larger than 10 seconds"),
        ("max_redirect_hops", 6, "may be made smaller, not larger than 5 redirects"),
        ("block_private_ip", False, "is always true: private addresses are never fetched"),
        ("allow_https_only", False, "is always true: only https is fetched"),
        ("block_private_ip", 0, "is always true: private addresses are never fetched"),
        ("block_private_ip", None, "is always true: private addresses are never fetched"),
    ],
)
def test_pack_url_no_rule_can_be_loosened(field: str, value: Any, said: str) -> None:
    assert complaints(urls=ONE, **{field: value}) == {f"inputs.{field}": said}


@pytest.mark.parametrize(
    "field", ["allow_http", "allow_private", "private_hosts", "DPP_URL_PRIVATE_HOSTS", "ca_file", "ports", "proxy"]
)
def test_pack_url_a_request_knows_no_allowance(field: str) -> None:
    said = complaints(urls=ONE, **{field: True})
    assert set(said) == {f"inputs.{field}"}
    assert said[f"inputs.{field}"] in {"unknown field; remove it", "unknown field; did you mean `allow_https_only`?"}


@pytest.mark.parametrize(
    ("inputs", "field"),
    [
        ({}, "inputs.urls"),
        ({"urls": []}, "inputs.urls"),
        ({"urls": ONE * 31}, "inputs.urls"),
        ({"urls": "https://example.com/"}, "inputs.urls"),
        ({"urls": [""]}, "inputs.urls[0]"),
        ({"urls": [*ONE, 7]}, "inputs.urls[1]"),
        ({"urls": ["https://example.com/" + "a" * 2_048]}, "inputs.urls[0]"),
        ({"urls": ONE, "max_urls": 0}, "inputs.max_urls"),
        ({"urls": ONE, "max_urls": True}, "inputs.max_urls"),
        ({"urls": ONE, "fetch_timeout_sec": 0}, "inputs.fetch_timeout_sec"),
        ({"urls": ONE, "fetch_timeout_sec": "5"}, "inputs.fetch_timeout_sec"),
        ({"urls": ONE, "max_redirect_hops": -1}, "inputs.max_redirect_hops"),
    ],
)
def test_pack_url_a_wrong_input_is_named(inputs: dict[str, Any], field: str) -> None:
    assert list(complaints(**inputs)) == [field]


def test_pack_url_estimates_each_page_once() -> None:
    some = UrlInputs(urls=["https://a.example/", "https://b.example/", "https://a.example/"])
    assert url.PACK.estimate(some) == Estimate(least_micros=1_000, most_micros=5_000)
    assert url.PACK.estimate(some.model_copy(update={"max_urls": 1})) == Estimate(least_micros=1_000, most_micros=3_000)


def test_pack_url_example_fits_its_schema() -> None:
    assert UrlInputs.model_validate(dict(url.PACK.example)).urls == ONE


def test_pack_url_allowance_is_read_from_the_environment() -> None:
    read = Allowance.read({"DPP_URL_PRIVATE_HOSTS": " Wiki.corp=10.0.0.7:8443, six=[fd00::1]:443 ,"})
    assert read.hosts == {"wiki.corp": ("10.0.0.7", 8443), "six": ("fd00::1", 443)}
    assert Allowance.read({}).hosts == {}


@pytest.mark.parametrize("value", ["wiki.corp", "wiki.corp=10.0.0.7", "wiki.corp=wiki:443", "wiki=10.0.0.7:https"])
def test_pack_url_a_wrong_allowance_is_named(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("DPP_URL_PRIVATE_HOSTS", value)
    assert list(url.PACK.missing()) == [f"DPP_URL_PRIVATE_HOSTS: {value!r} is not name=address:port"]


def test_pack_url_a_lost_authority_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(url.PACK.missing()) == []
    monkeypatch.setenv("DPP_URL_CA_FILE", "/no/such/file.pem")
    assert list(url.PACK.missing()) == ["DPP_URL_CA_FILE names no file"]
