"""Our packs' price lists, by version: a run is charged by the one that it was accepted under (DPP-93)."""

from typing import Final

import pytest

from runs.packs import registry

pytestmark = pytest.mark.contract("DPP-93")

LISTS: Final = {
    "command": ("1", [("second", 100)]),
    "compliance": (
        "1",
        [("run", 1_000), ("1,000 characters and rule", 20), ("1,000 characters and rule", 100)],
    ),
    "decision": ("1", [("run", 50_000)]),
    "eval": ("1", [("run", 1_000), ("item and metric", 10)]),
    "ocr": ("1", [("page", 2_000)]),
    "url": ("1", [("run", 1_000), ("page", 2_000)]),
}


@pytest.mark.parametrize("name", LISTS)
def test_dpp_93_prices_change_with_their_version_alone(name: str) -> None:
    """Of a pack whose prices change: give the list a new version, keep this one in `earlier_prices`, charge by
    `work.prices`, and only then write the new list here.
    """
    pack = registry.pack_named(name)
    newest = pack.price_list(None)
    assert (newest.version, [(line.unit, line.micros) for line in newest.lines]) == LISTS[name]
    assert not pack.earlier_prices
    assert pack.price_list("gone") == pack.price_list(pack.price_version) == newest


def test_dpp_93_a_price_is_found_by_its_unit() -> None:
    assert registry.pack_named("url").price_list("1").micros("page") == 2_000
    for unit in ("hour", "1,000 characters and rule"):
        with pytest.raises(LookupError, match="price list has"):
            registry.pack_named("compliance").price_list("1").micros(unit)
