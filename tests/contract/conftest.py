"""The two sides that keep the money's contract."""

import pytest

from tests.gear.reference.money import ModelSide, ScriptSide, Side, open_tenant
from tests.gear.reference.money_model import Model


@pytest.fixture(params=["scripts", "model"])
def side(request: pytest.FixtureRequest) -> Side:
    if request.param == "model":
        made: Side = ModelSide(Model())
    else:
        made = ScriptSide(request.getfixturevalue("valkey"))
    open_tenant(made)
    return made
