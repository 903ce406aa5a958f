"""The form of a key: what is made is read back, what is not exactly a key is nothing."""

import hashlib
import hmac
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants import keys

ALPHABET = string.digits + string.ascii_letters


@pytest.mark.contract("DPP-11")
def test_keys_a_made_key_has_the_documented_form_and_the_hash_of_the_whole() -> None:
    new = keys.make_api_key()
    assert re.fullmatch(r"dpp_[0-9A-Za-z]{8}_[0-9A-Za-z]{43}", new.plaintext)
    assert new.plaintext.startswith(f"dpp_{new.prefix}_")
    assert new.key_hash == hashlib.sha256(new.plaintext.encode()).hexdigest()


def test_keys_two_keys_share_nothing() -> None:
    made = [keys.make_api_key() for _ in range(200)]
    assert len({key.prefix for key in made}) == 200
    assert len({key.plaintext[13:] for key in made}) == 200


def test_keys_repr_does_not_show_the_secret() -> None:
    new = keys.make_api_key()
    assert new.plaintext[13:] not in repr(new)
    assert new.key_hash not in repr(new)


@given(st.text(ALPHABET, min_size=8, max_size=8), st.text(ALPHABET, min_size=43, max_size=43))
def test_keys_prefix_is_read_from_every_well_formed_key(prefix: str, secret: str) -> None:
    assert keys.prefix_of(f"dpp_{prefix}_{secret}") == prefix


@given(st.text())
def test_keys_text_is_never_a_key(text: str) -> None:
    assert keys.prefix_of(text) is None


@given(st.integers(0, keys.KEY_LENGTH - 1), st.characters(exclude_characters=ALPHABET))
def test_keys_one_foreign_character_anywhere_is_refused(place: int, character: str) -> None:
    key = "dpp_abcdefgh_" + "x" * 43
    bent = key[:place] + character + key[place + 1 :]
    assert keys.prefix_of(bent) == ("abcdefgh" if bent == key else None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "dpp_abcdefgh",
        "dpp_abcdefgh_" + "x" * 42,
        "dpp_abcdefgh_" + "x" * 44,
        "dpp_abcdefgh_" + "x" * 43 + "\n",
        " dpp_abcdefgh_" + "x" * 43,
        "DPP_abcdefgh_" + "x" * 43,
        "dpp_abcdefgh_" + "\N{ARABIC-INDIC DIGIT ONE}" * 43,
        "dpp_abcd\x00fgh_" + "x" * 43,
    ],
)
def test_keys_near_misses_are_refused(text: str) -> None:
    assert keys.prefix_of(text) is None


def test_keys_match_their_own_hash_only() -> None:
    one, other = keys.make_api_key(), keys.make_api_key()
    assert keys.api_key_matches(one.key_hash, one.key_hash) is True
    assert keys.api_key_matches(one.key_hash, other.key_hash) is False


def test_keys_match_nothing_without_a_row_even_the_stand_in() -> None:
    assert keys.api_key_matches(keys.make_api_key().key_hash, None) is False
    assert keys.api_key_matches(keys._NO_ROW, None) is False


@pytest.mark.contract("DPP-11")
@pytest.mark.parametrize("stored", [keys.make_api_key().key_hash, None], ids=["known prefix", "unknown prefix"])
def test_keys_are_compared_in_constant_time_known_or_not(monkeypatch: pytest.MonkeyPatch, stored: str | None) -> None:
    compared: list[tuple[str, str]] = []
    real = hmac.compare_digest

    def spy(one: str, other: str) -> bool:
        compared.append((one, other))
        return real(one, other)

    monkeypatch.setattr("tenants.keys.hmac.compare_digest", spy)
    assert keys.api_key_matches("0" * 64, stored) is False
    assert len(compared) == 1
    assert all(len(side) == 64 for side in compared[0])
