"""A trace id is taken where it is safe to take, and made where it is not (DPP-25)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpp_project.observe import tracing

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.contract("DPP-25")
@pytest.mark.parametrize(
    ("headers", "taken"),
    [
        ({"X-Trace-Id": "order-77:a.b_c"}, "order-77:a.b_c"),
        ({"X-Trace-Id": 'bad"\r\nSet-Cookie: x=1'}, "badSet-Cookie:x1"),
        ({"X-Trace-Id": "x" * 200}, "x" * 64),
        ({"X-Trace-Id": "한글"}, None),
        ({"X-Trace-Id": ""}, None),
        ({}, None),
        ({"traceparent": PARENT}, "0af7651916cd43dd8448eb211c80319c"),
        ({"X-Trace-Id": "mine", "traceparent": PARENT}, "mine"),
        ({"traceparent": PARENT.replace("00-", "ff-", 1)}, None),
        ({"traceparent": "00-" + "0" * 32 + "-b7ad6b7169203331-01"}, None),
        ({"traceparent": "00-0af7651916cd43dd8448eb211c80319c-" + "0" * 16 + "-01"}, None),
        ({"traceparent": PARENT + "trailing"}, None),
    ],
)
def test_dpp_25_what_is_taken_of_a_callers_trace_id(headers: dict[str, str], taken: str | None) -> None:
    assert tracing.from_headers(headers) == taken


@given(st.text(max_size=300))
def test_dpp_25_a_taken_trace_id_is_always_safe_to_log_and_to_send(raw: str) -> None:
    taken = tracing.sanitise_trace_id(raw)
    assert taken is None or (0 < len(taken) <= 64 and taken.isascii() and taken.isprintable() and " " not in taken)


def test_made_trace_ids_differ() -> None:
    assert len({tracing.make_trace_id() for _ in range(1_000)}) == 1_000
