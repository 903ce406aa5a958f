"""Names of containers, volumes and archives: made, and read again."""

import uuid

import pytest

from ops.workspaces import naming

pytestmark = pytest.mark.contract("WSP-07")

WORKSPACE = uuid.UUID("0193a4b2-7c11-7def-8123-456789abcdef")
OP = uuid.UUID("deadbeef-0000-4000-8000-000000000001")
CONTAINER = "ws-0193a4b2-7c11-7def-8123-456789abcdef"
VOLUME = "ws-0193a4b2-7c11-7def-8123-456789abcdef-home-deadbeef-2"
KEY = "0193a4b2-7c11-7def-8123-456789abcdef/deadbeef-0000-4000-8000-000000000001/home.tar.zst"


def test_names_are_as_agreed_and_say_whose_they_are() -> None:
    assert naming.container_name(WORKSPACE) == CONTAINER
    assert naming.read_container_name(naming.container_name(WORKSPACE)) == WORKSPACE
    assert naming.volume_name(WORKSPACE, op_id=OP, attempt=2) == VOLUME
    assert naming.archive_key(WORKSPACE, op_id=OP) == KEY
    assert naming.read_archive_key(KEY) == naming.NamedArchive(WORKSPACE, OP)
    assert KEY.startswith(naming.archive_prefix(WORKSPACE))


def test_the_longest_name_has_63_characters_and_a_longer_one_is_refused() -> None:
    longest = naming.volume_name(WORKSPACE, op_id=OP, attempt=naming.ATTEMPT_MAX)
    assert len(longest) == naming.NAME_LENGTH_MAX
    for attempt in (0, -1, naming.ATTEMPT_MAX + 1):
        with pytest.raises(ValueError, match="attempt must be 1 to"):
            naming.volume_name(WORKSPACE, op_id=OP, attempt=attempt)


@pytest.mark.parametrize(
    "foreign",
    [
        *("", "ws-", "home", VOLUME, CONTAINER + "\n", CONTAINER + "0", CONTAINER.upper(), "x" + CONTAINER),
        *(CONTAINER.replace("ws-", "wt-"), CONTAINER.replace("0193", "\u0660193")),
        *(KEY + "/", KEY + "x", "/" + KEY, KEY.replace("tar", "tax"), KEY.replace("/deadbeef", "/../deadbeef")),
    ],
)
def test_a_name_that_is_not_ours_says_nothing(foreign: str) -> None:
    assert naming.read_archive_key(foreign) is None
    assert naming.read_container_name(foreign) is None
