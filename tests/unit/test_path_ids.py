"""An id in a path has one form: every other is answered as an unknown id is, with no look at a database."""

import uuid

import pytest

from dpp_project.http.path_ids import id_in_path
from dpp_project.http.problems import Problem
from dpp_project.reasons import ReasonCode

pytestmark = pytest.mark.contract("DPP-22")

GIVEN = "a5b1c2d3-0000-4000-8000-00000000abcd"


def test_an_id_is_taken_as_it_was_given_out() -> None:
    assert id_in_path(GIVEN) == uuid.UUID(GIVEN)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "none-such",
        GIVEN.upper(),
        GIVEN.replace("-", ""),
        f"{{{GIVEN}}}",
        f"urn:uuid:{GIVEN}",
        f"{GIVEN}\n",
        "٣" * 32,
    ],
)
def test_any_other_form_of_an_id_is_unknown(text: str) -> None:
    with pytest.raises(Problem) as raised:
        id_in_path(text)
    assert raised.value.reason is ReasonCode.NOT_FOUND
