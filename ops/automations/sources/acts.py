"""What people do with sources: make one, change it, rotate its secret, pause and resume it, have it looked at now.

Each is audited with what changed, of an address with its origin alone, and never with a secret. A generated secret is
in the answer that made it, and in no other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import structlog
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from dpp_project import clock, encryption, uuid7
from dpp_project.audit import trail
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal, invalid
from dpp_project.stores.postgres import database_now
from ops.automations.models import AutomationSource
from ops.automations.sources import credentials, settings_of
from ops.automations.sources.credentials import Credentials
from ops.automations.sources.looking import moment_of_service
from ops.automations.states import SourceKind
from tenants.webhooks import registration

log = structlog.get_logger("dpp.automations")

SECRET_LENGTH_MAX: Final = 4_096
NAME: Final = "name"
_FORGOTTEN: Final = ("login", "account_id")
"""Of a look's state, what belongs to a token."""
_BEGUN: Final = ("sweep", "search")
"""And what belongs to settings."""
_ADDRESSES: Final = frozenset({"url", "base_url"})
"""Of the settings. An incoming webhook has its secret in its path or query."""
_UNLEASED: Final[dict[str, Any]] = {"lease_owner": None, "lease_until": None}
"""A look under way keeps its events, and not its marks: it would bring back what an act has changed."""


@dataclass(frozen=True, slots=True)
class Changed:
    """`secret` is in this answer and in no other; empty where none was made."""

    source: AutomationSource
    secret: str = field(default="", repr=False)


def create_source(
    *, name: str, kind: SourceKind, settings: Mapping[str, Any], actor: str, token: str = "", signing_secret: str = ""
) -> Changed | Refusal:
    """A hook without a signing secret is given one. A new source has no past: it begins with what comes from now on."""
    fault = (
        settings_of.fault_of_source_settings(kind, settings)
        or _name_fault(name)
        or _token_missing(kind, settings, token)
    )
    fault = fault or _token_fault(kind, token)
    if fault is not None:
        return fault
    made = credentials.new_signing_secret() if _is_given_a_secret(kind, settings, signing_secret) else ""
    first = signing_secret or made
    signing = (credentials.SigningSecret(first),) if first else ()
    if (token or first) and (impossible := _no_encryption()) is not None:
        return impossible
    source_id = uuid7.new_uuid7()
    with transaction.atomic():
        if AutomationSource.objects.filter(name=name).exists():
            return Refusal(ReasonCode.CONFLICT, "a source has this name", NAME)
        source = AutomationSource.objects.create(
            source_id=source_id,
            name=name,
            kind=kind,
            settings=dict(settings),
            sealed_secrets=credentials.sealed_credentials(source_id, Credentials(token, signing))
            if token or first
            else None,
            created_by=actor,
        )
        _record_source_act("automation source made", source, actor, after={"kind": kind.value, **settings})
    return Changed(AutomationSource.objects.get(pk=source.pk), made)


def rotate_source_secret(
    *, source: AutomationSource, actor: str, token: str = "", signing_secret: str = ""
) -> Changed | Refusal:
    """A new token at once; or a new signing secret, given or made, beside which the former signs for a day more."""
    if token and (fault := _token_fault(SourceKind(source.kind), token)) is not None:
        return fault
    if len(signing_secret) > SECRET_LENGTH_MAX:
        return invalid("signing_secret", f"must be at most {SECRET_LENGTH_MAX} characters")
    if (impossible := _no_encryption()) is not None:
        return impossible
    made = "" if token or signing_secret else credentials.new_signing_secret()
    with transaction.atomic():
        row = AutomationSource.objects.select_for_update(no_key=True).get(pk=source.pk)
        known = _readable_source_credentials(row)
        if token:
            changed, act = known.with_token(token), "automation source's token replaced"
            row.state = {name: value for name, value in row.state.items() if name not in _FORGOTTEN}
        else:
            if len(known.live(clock.now())) >= credentials.SECRETS_MAX:
                return Refusal(ReasonCode.CONFLICT, "two secrets sign already; the older one ends within a day", "do")
            changed, act = known.with_signing(signing_secret or made, now=clock.now()), "automation source rotated"
        AutomationSource.objects.filter(pk=row.pk).update(
            sealed_secrets=credentials.sealed_credentials(row.pk, changed),
            state=row.state,
            failures=0,
            next_look_at=_next_look(row),
            version=F("version") + 1,
            **_UNLEASED,
        )
        _record_source_act(act, row, actor, after={})
    return Changed(AutomationSource.objects.get(pk=row.pk), made)


def change_source(*, source: AutomationSource, settings: Mapping[str, Any], actor: str) -> Changed | Refusal:
    fault = settings_of.fault_of_source_settings(SourceKind(source.kind), settings)
    if fault is not None:
        return fault
    with transaction.atomic():
        row = AutomationSource.objects.select_for_update(no_key=True).get(pk=source.pk)
        before, after = trail.differing_values(row.settings, dict(settings))
        # A schedule that is moved is not due for what it would have been due for.
        state = {name: value for name, value in row.state.items() if name not in _BEGUN}
        state |= {"since": database_now().isoformat()} if row.kind == SourceKind.SCHEDULE else {}
        AutomationSource.objects.filter(pk=row.pk).update(
            settings=dict(settings), state=state, next_look_at=_next_look(row), version=F("version") + 1, **_UNLEASED
        )
        _record_source_act("automation source changed", row, actor, before=before, after=after)
    return Changed(AutomationSource.objects.get(pk=row.pk))


def pause_source(*, source: AutomationSource, actor: str) -> Changed:
    """It is not looked at, and its hook refuses. What happens meanwhile a resume finds, as far as its service tells."""
    return _switched(source, actor, enabled=False)


def resume_source(*, source: AutomationSource, actor: str) -> Changed:
    return _switched(source, actor, enabled=True)


def look_now(*, source: AutomationSource, actor: str) -> Changed | Refusal:
    """At once, or as soon as its service wants to be asked again."""
    if source.kind in {SourceKind.HOOK, SourceKind.SLACK}:
        return Refusal(ReasonCode.CONFLICT, "it is not looked at: its events come by themselves", "do")
    if not source.enabled:
        return Refusal(ReasonCode.CONFLICT, "it is paused; resume it first", "do")
    with transaction.atomic():
        row = AutomationSource.objects.select_for_update(no_key=True).get(pk=source.pk)
        AutomationSource.objects.filter(pk=row.pk).update(next_look_at=_next_look(row), version=F("version") + 1)
        _record_source_act("automation source looked at by hand", row, actor, after={})
    return Changed(AutomationSource.objects.get(pk=row.pk))


def find_source(name: str) -> AutomationSource | Refusal:
    found = AutomationSource.objects.filter(name=name).first()
    return found or Refusal(ReasonCode.NOT_FOUND, "there is no such source; see automations source list", NAME)


def _switched(source: AutomationSource, actor: str, *, enabled: bool) -> Changed:
    with transaction.atomic():
        row = AutomationSource.objects.select_for_update(no_key=True).get(pk=source.pk)
        if row.enabled is not enabled:
            state = row.state
            if enabled and row.kind == SourceKind.SCHEDULE:
                state = state | {"since": database_now().isoformat()}
            AutomationSource.objects.filter(pk=row.pk).update(
                enabled=enabled, state=state, next_look_at=_next_look(row), version=F("version") + 1, **_UNLEASED
            )
            act = "automation source resumed" if enabled else "automation source paused"
            _record_source_act(act, row, actor, before={"enabled": row.enabled}, after={"enabled": enabled})
    return Changed(AutomationSource.objects.get(pk=row.pk))


def _next_look(row: AutomationSource) -> Any:
    """Now, but not before the moment that the service named."""
    if "not_before" not in row.state:
        return Now()
    return max(moment_of_service(row.state["not_before"]), database_now())


def _readable_source_credentials(row: AutomationSource) -> Credentials:
    """Without what cannot be read any more: it is being replaced."""
    try:
        return credentials.kept_credentials(row)
    except credentials.NoCredentials:
        return Credentials()


def _is_given_a_secret(kind: SourceKind, settings: Mapping[str, Any], signing_secret: str) -> bool:
    return kind is SourceKind.HOOK and not signing_secret and not settings.get("signing_env")


def _name_fault(name: str) -> Refusal | None:
    if settings_of.NAME.fullmatch(name) is None:
        return invalid(NAME, "must be 1 to 64 of a to z, 0 to 9, - and _, and begin with a letter or a digit")
    return None


def _token_missing(kind: SourceKind, settings: Mapping[str, Any], token: str) -> Refusal | None:
    if token or settings.get("token_env") or kind not in settings_of.NEEDS_TOKEN:
        return None
    return invalid("token", "give its token, or name a variable AUTOMATION_SECRET_… in `token_env`")


def _token_fault(kind: SourceKind, token: str) -> Refusal | None:
    if len(token) > SECRET_LENGTH_MAX or not token.isprintable() or not token.isascii():
        return invalid("token", f"must be at most {SECRET_LENGTH_MAX} printable characters of ASCII")
    if kind is SourceKind.GITHUB and token.startswith(settings_of.NOT_CLASSIC):
        return invalid(
            "token",
            "GitHub lets classic personal access tokens alone read notifications; make one with the scope"
            " `notifications` or `repo`",
        )
    return None


def _no_encryption() -> Refusal | None:
    if encryption.is_possible():
        return None
    return Refusal(ReasonCode.SERVICE_UNAVAILABLE, "DPP_ENCRYPTION_KEYS is not set", "DPP_ENCRYPTION_KEYS")


def _record_source_act(
    act: str,
    source: AutomationSource,
    actor: str,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any],
) -> None:
    trail.record_in_trail(
        act,
        actor=actor,
        subject=f"automation source {source.name}",
        before=None if before is None else _without_paths(before),
        after=_without_paths(after),
    )
    transaction.on_commit(partial(log.info, act, actor=actor, source=source.name))


def _without_paths(facts: Mapping[str, Any]) -> dict[str, Any]:
    """One whose path alone was changed stands in both facts, with the same origin."""
    return {
        name: registration.endpoint_origin(value) if name in _ADDRESSES and value else value
        for name, value in facts.items()
    }
