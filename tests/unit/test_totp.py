"""Codes of the second factor, against the vectors of RFC 6238 (the last six of their eight digits)."""

import base64

import pytest

from dpp_project.signin import totp

pytestmark = pytest.mark.contract("HRD-13")

SECRET = base64.b32encode(b"12345678901234567890").decode()
VECTORS = [
    (59, "94287082"),
    (1_111_111_109, "07081804"),
    (1_111_111_111, "14050471"),
    (1_234_567_890, "89005924"),
    (2_000_000_000, "69279037"),
    (20_000_000_000, "65353130"),
]


@pytest.mark.parametrize(("seconds", "digits"), VECTORS)
def test_hrd_13_a_code_is_that_of_the_rfc(seconds: int, digits: str) -> None:
    assert totp.totp_code(SECRET, totp.step_at(seconds)) == digits[-6:]


@pytest.mark.parametrize(("late", "taken"), [(-61, False), (-30, True), (0, True), (30, True), (61, False)])
def test_hrd_13_a_phone_may_be_half_a_minute_off(late: int, taken: bool) -> None:  # noqa: FBT001  parametrized
    given = totp.totp_code(SECRET, totp.step_at(1_234_567_890))
    found = totp.matching_step(SECRET, given, seconds=1_234_567_890 + late, after=0)
    assert (found is not None) is taken


def test_hrd_13_a_code_is_good_once_and_no_older_one_after_it() -> None:
    now = 1_234_567_890
    step = totp.step_at(now)
    assert totp.matching_step(SECRET, totp.totp_code(SECRET, step), seconds=now, after=step - 1) == step
    assert totp.matching_step(SECRET, totp.totp_code(SECRET, step), seconds=now, after=step) is None
    assert totp.matching_step(SECRET, totp.totp_code(SECRET, step - 1), seconds=now, after=step) is None


@pytest.mark.parametrize("given", ["", "12345", "abcdef", "0" * 16, "\uff11\uff12\uff13\uff14\uff15\uff16", "\x00"])
def test_hrd_13_what_is_no_code_matches_nothing(given: str) -> None:
    assert totp.matching_step(SECRET, given, seconds=59, after=0) is None


def test_hrd_13_a_code_may_be_typed_with_a_space() -> None:
    assert totp.matching_step(SECRET, "287 082", seconds=59, after=0) == 1


def test_hrd_13_a_secret_is_of_160_random_bits_and_is_told_as_apps_read_it() -> None:
    one, another = totp.new_secret(), totp.new_secret()
    assert one != another
    assert len(base64.b32decode(one)) == 20
    assert totp.provisioning_uri("ABC", name="ada@x", issuer="DPP console") == (
        "otpauth://totp/DPP%20console%3Aada%40x?secret=ABC&issuer=DPP%20console"
    )
