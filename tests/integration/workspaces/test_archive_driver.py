"""From a driver's volume into the archive and back into another volume, as the loops do it."""

import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from ops.workspaces.archive_store.archives import SentArchive
from ops.workspaces.drivers.base import DriverCorrupt, Label
from ops.workspaces.drivers.process.driver import ProcessDriver
from tests.gear.builders import archives
from tests.gear.builders.archives import OURS, ignore, new_key, odd_home, tar_of
from tests.gear.builders.workspace_drivers import process_driver
from tests.gear.tree_hash import tree_hash, tree_lines

pytestmark = [pytest.mark.contract("WSP-07", "WSP-11"), pytest.mark.usefixtures("aws")]

ROUNDS = 5
WORKSPACE = str(uuid.uuid4())


def volume(driver: ProcessDriver, attempt: int) -> str:
    label = Label(WORKSPACE, str(uuid.uuid4()), attempt)
    name = f"ws-{label.workspace_id}-home-{label.op_id[:8]}-{attempt}"
    driver.ensure_volume(name, label)
    return name


def test_a_home_goes_through_five_volumes_and_stays_the_same(tmp_path: Path) -> None:
    """A tenant's files have one owner in a volume of processes; all else is as it was left."""
    store = archives.store()
    with process_driver() as driver:
        first = volume(driver, 1)
        driver.import_(first, iter([tar_of(odd_home(tmp_path / "home"))]))
        known, home = tree_lines(driver._volumes.home(first)), first
        assert len(known) == 47
        for attempt in range(2, ROUNDS + 2):
            key = new_key()
            sent = store.upload(key, OURS, driver.export(home), opened=ignore)
            assert isinstance(sent, SentArchive)
            verified = store.verify(key, OURS, sent)
            assert verified.members == 47
            home = volume(driver, attempt)
            driver.import_(home, store.read(key, verified))
            assert tree_lines(driver._volumes.home(home)) == known
        assert tree_hash(driver._volumes.home(home)) == tree_hash(driver._volumes.home(first))
        assert driver.usage_bytes(home) < 3_000_000


def test_an_archive_that_changed_since_it_was_verified_fills_no_volume(tmp_path: Path) -> None:
    """It unpacks without a fault: only its hash says that it is another one."""
    store, key = archives.store(), new_key()
    home = archives.small_home(tmp_path / "home")
    sent = store.upload(key, OURS, archives.export(home), opened=ignore)
    verified = store.verify(key, OURS, sent)
    (home / "block").write_bytes(b"y" * 512)
    store.delete(key)
    later = store.upload(key, OURS, archives.export(home), opened=ignore)
    assert later is not None
    expected = replace(verified, object_bytes=later.object_bytes, tar_bytes=later.tar_bytes)
    with process_driver() as driver, pytest.raises(DriverCorrupt, match="is not what was verified"):
        driver.import_(volume(driver, 1), store.read(key, expected))
