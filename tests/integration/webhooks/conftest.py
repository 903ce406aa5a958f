import pytest

from tenants.webhooks import reach
from tests.gear.builders.webhooks import NamesOfTests


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> NamesOfTests:
    """The only names that registration finds here."""
    known = NamesOfTests()
    monkeypatch.setattr(reach, "webhook_network", lambda: known)
    return known
