"""What is encrypted is read again under any key that is listed, at its own place, and nowhere else."""

import base64
from typing import Any

import pytest

from dpp_project import encryption, env
from dpp_project.process_env import ENV

pytestmark = pytest.mark.contract("HOOK-07")

OLD, NEW = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))
PLACE = b"here"


def keyed(monkeypatch: pytest.MonkeyPatch, *keys: str) -> None:
    monkeypatch.setattr(encryption, "ENV", ENV.model_copy(update={"DPP_ENCRYPTION_KEYS": [*keys]}))


def test_hook_07_what_was_encrypted_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    keyed(monkeypatch, OLD)
    sealed = encryption.encrypt(b"secret", bound_to=PLACE)
    assert b"secret" not in sealed
    assert encryption.decrypt(sealed, bound_to=PLACE) == b"secret"
    assert encryption.encrypt(b"secret", bound_to=PLACE) != sealed


def test_hook_07_the_first_key_encrypts_and_all_decrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    keyed(monkeypatch, OLD)
    old = encryption.encrypt(b"secret", bound_to=PLACE)
    keyed(monkeypatch, NEW, OLD)
    new = encryption.encrypt(b"secret", bound_to=PLACE)
    assert encryption.decrypt(old, bound_to=PLACE) == encryption.decrypt(new, bound_to=PLACE) == b"secret"
    assert new.startswith(encryption.current_head())
    assert not old.startswith(encryption.current_head())
    keyed(monkeypatch, NEW)
    assert encryption.decrypt(new, bound_to=PLACE) == b"secret"
    with pytest.raises(encryption.Unreadable):
        encryption.decrypt(old, bound_to=PLACE)


@pytest.mark.parametrize("harm", ["place", "head", "nonce", "text", "tag", "short", "empty"])
def test_hook_07_what_was_touched_or_moved_does_not_open(monkeypatch: pytest.MonkeyPatch, harm: str) -> None:
    keyed(monkeypatch, OLD)
    sealed = bytearray(encryption.encrypt(b"secret", bound_to=PLACE))
    at = {"head": 1, "nonce": 6, "text": 18, "tag": -1}.get(harm)
    if at is not None:
        sealed[at] ^= 1
    cut = {"short": 10, "empty": 0}.get(harm, len(sealed))
    with pytest.raises(encryption.Unreadable):
        encryption.decrypt(bytes(sealed[:cut]), bound_to=b"there" if harm == "place" else PLACE)


def test_hook_07_without_a_key_nothing_is_encrypted_or_read(monkeypatch: pytest.MonkeyPatch) -> None:
    keyed(monkeypatch, OLD)
    sealed = encryption.encrypt(b"secret", bound_to=PLACE)
    keyed(monkeypatch)
    assert not encryption.is_possible()
    with pytest.raises(encryption.NoEncryptionKey):
        encryption.encrypt(b"secret", bound_to=PLACE)
    with pytest.raises(encryption.Unreadable):
        encryption.decrypt(sealed, bound_to=PLACE)


@pytest.mark.parametrize("value", ["hunter2hunter2", "c2hvcnQ=", f"{OLD},{OLD}", f"{OLD},c2hvcnQ=", OLD[:-1]])
def test_hook_07_a_wrong_key_stops_the_start_and_is_not_repeated(value: str) -> None:
    good: dict[str, Any] = {
        name: getattr(ENV, name)
        for name in ("DATABASE_URL", "REDIS_URL", "DPP_SECRET_KEY", "DPP_QUEUE_URL", "DPP_DLQ_URL")
    }
    with pytest.raises(env.EnvironmentInvalid) as refused:
        env.read_environment(good | {"DPP_ENCRYPTION_KEYS": value})
    assert "  DPP_ENCRYPTION_KEYS: each must be" in str(refused.value)
    assert value not in str(refused.value)
    assert env.read_environment(good | {"DPP_ENCRYPTION_KEYS": f" {OLD} , {NEW}"}).DPP_ENCRYPTION_KEYS == [OLD, NEW]
