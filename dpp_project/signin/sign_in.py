"""Whether someone is the operator she says she is: in the console's form, and for a command's --by.

Failed attempts are counted in the audit trail, where each stands with its name and address; there is no second count
that could be lost. Within 15 minutes, counted back from now:

    20 failures from one address (an IPv6 /64)           that address is refused
    5 failures of one name from browsers it never used   that name is refused to browsers it never used
    10 failures from one browser that has signed in      that browser is refused

A refused attempt is not judged and not counted, so it prolongs nothing. Attempts that are being judged at this moment
are not counted yet: as many as the API has threads may go beyond a bound.
"""

import enum
from typing import Final

import structlog
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.db import transaction

from dpp_project import actors, clock, origins
from dpp_project.actors import person_of
from dpp_project.audit import trail
from dpp_project.signin import totp
from dpp_project.signin.attempts import (
    FAILED,
    NOBODY,
    address_failed_too_often,
    attempt_network,
    attempts_reach,
    failed_lately,
)
from dpp_project.signin.metrics import SIGN_INS
from dpp_project.signin.models import SecondFactor

log = structlog.get_logger("dpp.signin")

NAME_FAILURES_MAX: Final = 5
DEVICE_FAILURES_MAX: Final = 10
NAME_LENGTH_MAX: Final = 150
SIGNED_IN: Final = "signed in"


class SignInRefused(enum.Enum):
    WRONG = "wrong"
    THROTTLED = "throttled"


def sign_in(*, name: str, password: str, code: str, device: str | None) -> User | SignInRefused:
    """The operator, her attempt written down; or why not. The same answer for a wrong name, password and code."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in name[:NAME_LENGTH_MAX])
    if is_throttled(shown, device=device):
        return SignInRefused.THROTTLED
    user = authenticate(None, username=name, password=password)
    if not isinstance(user, User) or not user.is_staff or not _second_factor_holds(user, code):
        record_wrong(shown, device=device)
        return SignInRefused.WRONG
    SIGN_INS.labels("signed_in").inc()
    _record_operator_sign_in(SIGNED_IN, actors.person_actor(user), shown, device)
    return user


def is_throttled(name: str, *, device: str | None) -> bool:
    """Nothing more is to be judged for now."""
    if not _failed_too_often(name, device):
        return False
    SIGN_INS.labels(SignInRefused.THROTTLED.value).inc()
    log.warning("sign-in throttled", name=name, place=origins.current_origin().place)
    return True


def record_wrong(name: str, *, device: str | None) -> None:
    """Also of one who is signed in, and is asked once more: a stolen session is to guess no longer than a stranger."""
    SIGN_INS.labels(SignInRefused.WRONG.value).inc()
    _record_operator_sign_in(FAILED, NOBODY, name, device)


def _failed_too_often(name: str, device: str | None) -> bool:
    failed = failed_lately()
    if device is not None:
        return attempts_reach(failed.filter(after__device=device), DEVICE_FAILURES_MAX)
    by_name = failed.filter(subject=_subject(name), after__device=None)
    return address_failed_too_often() or attempts_reach(by_name, NAME_FAILURES_MAX)


def _second_factor_holds(user: User, given: str) -> bool:
    """Of two at once with one code, one takes it: the step is moved by compare-and-set."""
    factor = SecondFactor.objects.filter(user=user).first()
    if factor is None:
        return True
    step = totp.matching_step(factor.secret, given, seconds=clock.now().timestamp(), after=factor.last_step)
    if step is None:
        return False
    return bool(SecondFactor.objects.filter(pk=factor.pk, last_step__lt=step).update(last_step=step))


def _record_operator_sign_in(act: str, actor: str, name: str, device: str | None) -> None:
    with transaction.atomic():
        trail.record_in_trail(
            act, actor=actor, subject=_subject(name), after={"network": attempt_network(), "device": device}
        )


def _subject(name: str) -> str:
    """One name for one person, however she types it."""
    return f"operator {person_of(f'operator:{name}')}"
