"""An operator proves at a command who she is: two people are not two names."""

import getpass
import sys

from dpp_project import actors
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from dpp_project.signin.sign_in import SignInRefused, sign_in


def prove_operator(name: str, *, permission: str, field: str = "--by") -> str | Refusal:
    """Her name as an actor, once her console password and code are right and she may do it in the console."""
    name = name.strip()
    user = sign_in(
        name=name,
        password=_prompted_signin_proof(f"Console password of {name}: "),
        code=_prompted_signin_proof(f"Code of {name}'s second factor, if there is one: "),
        device=None,
    )
    if isinstance(user, SignInRefused):
        detail = "name, password or code is wrong" if user is SignInRefused.WRONG else "too many failed attempts; wait"
        return Refusal(ReasonCode.AUTH_INVALID, f"{detail}. Nothing was changed", field)
    if not user.has_perm(permission):
        return Refusal(ReasonCode.SCOPE_MISSING, f"{name} lacks the permission {permission}", field)
    return actors.person_actor(user)


def _prompted_signin_proof(prompt: str) -> str:
    """Without echo at a terminal; else one line of standard input each."""
    return getpass.getpass(prompt) if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
