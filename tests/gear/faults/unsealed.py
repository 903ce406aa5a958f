"""The box without what closes it, for the table of attacks: each must be able to reach what it is refused elsewhere."""

from typing import Any, Final

from runs.box import kernel, launch, namespaces, sealing

_LAUNCHED: Final = "nursery.main"


def install() -> None:
    """In a nursery."""
    changes: tuple[tuple[Any, str, Any], ...] = (
        (namespaces, "namespaces_refusal", lambda _readable: "not asked for"),
        (sealing.Seal, "shut", lambda _seal, _scratch: None),
        (kernel, "drop_capabilities", lambda: None),
        (kernel, "drop_bounding_set", lambda: None),
        (kernel, "undumpable", lambda **_really: None),
    )
    for holder, name, changed in changes:
        setattr(holder, name, changed)


def install_in_worker() -> None:
    """And in every nursery that it starts."""
    first = "from tests.gear.faults import unsealed; unsealed.install(); "
    changes: tuple[tuple[Any, str, Any], ...] = (
        (kernel, "undumpable", lambda **_really: None),
        (launch, "_LAUNCH", launch._LAUNCH.replace(_LAUNCHED, first + _LAUNCHED)),
    )
    for holder, name, changed in changes:
        setattr(holder, name, changed)
