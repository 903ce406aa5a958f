"""A short look at what `make chaos` does for minutes: load, faults under it, recovery, and the account."""

import sys
from typing import Final

import pytest

from tests.proving import proofs
from tests.proving.proofs import Proof

ASKED: Final = ("--seconds", "5", "--drain", "90", "--seed", "8")


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.contract("DPP-55", "DPP-56")
def test_chaos_for_some_seconds_leaves_nothing_wrong(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    look = Proof(
        name="chaos",
        shows="a few faults under load, and no run and no micro is lost",
        command=(sys.executable, "-m", "tests.proving.chaos", *ASKED),
        least_cases=10,
        measured_seconds=175,  # a third of it alone; beside others its limit stays below this test's timeout
    )
    monkeypatch.setattr(proofs, "WITH_SERVICES", ())  # it brings a whole platform
    failed = proofs.run(look)
    said = capfd.readouterr().out
    assert failed is None, said
    assert "chaos: nothing is wrong" in said
    assert said.count("accepts after") >= 2, "faults were dealt, and the platform came back from each"
    proofs.report(cases=1, seed=8)
