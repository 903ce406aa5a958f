"""The url pack as it is sold: in the box, with nothing of its worker's environment but what it names."""

from collections.abc import Iterator
from typing import Any

import pytest

from runs.box.box import Box
from runs.box.outcomes import Done, PackOutcome
from runs.box.running import PackRequest
from runs.packs import url
from runs.packs.url.gathering import PAGE_MICROS, RUN_MICROS
from tests.gear.builders.box import begin
from tests.gear.builders.packs import PackLog
from tests.gear.servers.web import PAGE_TEXT, PAGE_TITLE, Web

pytestmark = pytest.mark.contract("DPP-62", "DPP-60")
NAMES = [f"p{number}.many.example" for number in range(30)]


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    made = Web(tmp_path_factory.mktemp("web"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def box(web: Web) -> Iterator[Box]:
    made = Box([url.__name__], may_read=[str(web.ca_file)])
    yield made
    made.close()


def run(box: Box, web: Web, inputs: dict[str, Any], *, allowed: bool = True, seconds: float = 30.0) -> PackOutcome:
    hosts = ",".join(f"{name}=127.0.0.1:{web.good}" for name in NAMES)
    allowance = {"DPP_URL_PRIVATE_HOSTS": hosts, "DPP_URL_CA_FILE": str(web.ca_file)} if allowed else {}
    job = PackRequest(
        run_id="a-run",
        module=url.__name__,
        inputs=inputs,
        timebox_seconds=seconds,
        ceiling_micros=1_000_000,
        memory_bytes=url.PACK.memory_bytes,
        reach=url.PACK.reach(allowance),
        environment=url.PACK.job_environment(allowance),
    )
    return begin(box, job, log=PackLog()).wait()


def test_pack_url_in_the_box_fetches_thirty_pages(box: Box, web: Web) -> None:
    found = run(box, web, {"urls": [f"https://{name}/ok" for name in NAMES]})
    assert isinstance(found, Done)
    results: Any = found.data["results"]
    assert [result["final_url"] for result in results] == [f"https://{name}/ok" for name in NAMES]
    assert {(result["title"], result["text_excerpt"]) for result in results} == {(PAGE_TITLE, PAGE_TEXT)}
    assert (found.spent_micros, found.tokens, found.reliability) == (RUN_MICROS + 30 * PAGE_MICROS, 0, 1.0)
    assert (found.discard_log, found.blocked_log) == ([], [])


def test_pack_url_in_the_box_thirty_large_pages_fit_its_memory(box: Box, web: Web) -> None:
    found = run(box, web, {"urls": [f"https://{name}/big-text" for name in NAMES]})
    assert isinstance(found, Done), found
    results: Any = found.data["results"]
    assert [result["notes"] for result in results] == [["TRUNCATED"]] * 30


def test_pack_url_in_the_box_a_hostile_page_costs_its_own_text_alone(box: Box, web: Web) -> None:
    paths = ["hostile", "ok"]
    found = run(box, web, {"urls": [f"https://{NAMES[0]}/{path}" for path in paths]})
    assert isinstance(found, Done), found
    results: Any = found.data["results"]
    assert [result["text_excerpt"] for result in results] == [None, PAGE_TEXT]
    assert [result["notes"] for result in results] == [["TEXT_NOT_READ"], []]
    assert results[0]["title"] == "T"


def test_pack_url_in_the_box_without_an_allowance_no_loopback_is_reached(box: Box, web: Web) -> None:
    taken = len(web.taken)
    urls = ["https://localhost/ok", "https://127.0.0.1/ok", "https://[::1]/ok", f"https://127.0.0.1:{web.good}/ok"]
    found = run(box, web, {"urls": urls}, allowed=False)
    assert isinstance(found, Done)
    assert found.data == {"results": []}
    assert {entry["url"]: entry["reason"] for entry in found.blocked_log} == {  # type: ignore[call-overload, index]
        urls[0]: "INTERNAL_NAME",
        urls[1]: "LOOPBACK",
        urls[2]: "LOOPBACK",
        urls[3]: "PORT_NOT_ALLOWED",
    }
    assert (found.spent_micros, found.reliability, len(web.taken)) == (RUN_MICROS, 0.0, taken)


def test_pack_url_in_the_box_a_slow_page_ends_before_the_timebox(box: Box, web: Web) -> None:
    found = run(box, web, {"urls": [f"https://{NAMES[0]}/slow", f"https://{NAMES[1]}/ok"]}, seconds=3.0)
    assert isinstance(found, Done), found
    assert found.discard_log == [{"url": f"https://{NAMES[0]}/slow", "reason": "TIMEOUT"}]
