"""A key is exchanged for a session: bounded by address as the console's attempts are, and with them (signin/attempts).

A key has 256 random bits, so there is no bound by its name: it would let a stranger who knows the public half of a key
keep its owner out, and hinder no guess.
"""

import enum
from typing import Final

from django.db import transaction

from dpp_project import actors
from dpp_project.audit import trail
from dpp_project.http.problems import Problem
from dpp_project.reasons import ReasonCode
from dpp_project.signin import attempts
from dpp_project.signin.metrics import SIGN_INS
from dpp_project.stores import redis
from tenants import authentication, keys, rate_limits
from tenants.principals import Principal
from tenants.rate_limits import Bucket
from tenants.scopes import OPERATOR_TENANT_ID

SIGNED_IN: Final = "signed in to the account pages"
KEY_LENGTH_MAX: Final = 200


class KeyRefused(enum.Enum):
    NO_KEY = "That is not an API key. A key begins with dpp_ and has 56 characters."
    WRONG = "The key is not valid: it may be mistyped, revoked or expired."
    OPERATORS = "This key operates the platform, and has no account. Operators sign in to the console."
    TOO_MANY = "This account has asked for too many pages within a minute; wait a little."
    THROTTLED = "Too many failed attempts from your address. Nothing was checked; try again in 15 minutes."


def sign_in_with_key(text: str) -> Principal | KeyRefused:
    """The principal of the key, its sign-in written down where the tenant reads it; or why not."""
    prefix = keys.prefix_of(text)
    if prefix is None:
        return KeyRefused.NO_KEY
    if attempts.address_failed_too_often():
        SIGN_INS.labels("throttled").inc()
        return KeyRefused.THROTTLED
    try:
        principal = authentication.authenticate_header(f"Bearer {text}")
    except Problem as problem:
        if problem.reason is not ReasonCode.AUTH_INVALID:
            raise
        SIGN_INS.labels("wrong").inc()
        _record_sign_in_attempt(attempts.FAILED, attempts.NOBODY, prefix, tenant_id=None)
        return KeyRefused.WRONG
    if principal.tenant_id == OPERATOR_TENANT_ID:
        return KeyRefused.OPERATORS
    if not has_room(principal):
        return KeyRefused.TOO_MANY
    SIGN_INS.labels("signed_in").inc()
    _record_sign_in_attempt(SIGNED_IN, actors.owner_actor(prefix), prefix, tenant_id=principal.tenant_id)
    return principal


def has_room(principal: Principal) -> bool:
    """A token of the bucket that all pages of the tenant share: each sign-in leaves two rows."""
    try:
        return rate_limits.check_rate_limit(principal, Bucket.PAGES).allowed
    except redis.RedisError as error:
        rate_limits.pass_or_refuse_unmetered(error, bucket=Bucket.PAGES)
        return True


def _record_sign_in_attempt(act: str, actor: str, prefix: str, *, tenant_id: str | None) -> None:
    after = {"network": attempts.attempt_network(), "device": None}
    with transaction.atomic():
        trail.record_in_trail(act, actor=actor, subject=f"key dpp_{prefix}", tenant_id=tenant_id, after=after)
