"""Use cases of tenants and keys, for commands, admin and seeding alike. The only writer of both tables.

Each use case returns what it made, or a `Refusal` that names the field and the cure and changed nothing. Each act is
entered into the audit trail in its own transaction, and logged when that commits, so a dry run (which rolls back)
leaves neither, and no more does a repetition that changes nothing. A revocation or suspension
reaches every process within 5 s of its commit (see `tenants.principals.PrincipalCache`).
"""

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import structlog
from django.db import IntegrityError, connection, transaction

from dpp_project import clock
from dpp_project.audit import trail
from dpp_project.constants import RATE_LIMIT_PER_MINUTE_DEFAULT
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal, invalid
from tenants import keys
from tenants.models import (
    LOW_BALANCE_MICROS_MAX,
    MOST_AT_WORK_MAX,
    RATE_PER_MINUTE_MAX,
    SHARE_WEIGHT_MAX,
    TENANT_ID_PATTERN,
    ZONE_DEFAULT,
    ZONE_PATTERN,
    ApiKey,
    Tenant,
)
from tenants.scopes import OPERATOR_TENANT_ID, Scope, allowed_for

log = structlog.get_logger("dpp.tenants")

TEXT_LENGTH_MAX: Final = 200
GRACE_DEFAULT: Final = timedelta(hours=24)
GRACE_MAX: Final = timedelta(days=30)
EXPIRES_BEFORE: Final = datetime(3000, 1, 1, tzinfo=UTC)
"""Later ones come near the end of the calendar: Postgres keeps them, and Python cannot read them back."""
_NO_PLACES: Final = ("posix/", "right/", "posixrules", "localtime", "Factory")
"""Files beside the zones; `localtime` differs from machine to machine."""
KEY_ISSUED: Final = "key issued"
KEY_ROTATED: Final = "key rotated"


@dataclass(frozen=True)
class IssuedKey:
    """A stored key with its plaintext. The caller shows the plaintext once and drops it."""

    key: ApiKey
    plaintext: str

    def __repr__(self) -> str:
        return f"IssuedKey(key={self.key!r})"


def create_tenant(
    *,
    tenant_id: str,
    display_name: str,
    poll_rate_per_minute: int = RATE_LIMIT_PER_MINUTE_DEFAULT,
    submit_rate_per_minute: int = RATE_LIMIT_PER_MINUTE_DEFAULT,
    refund_own_failures: bool = False,
    low_balance_usd_micros: int | None = None,
    zone: str = ZONE_DEFAULT,
    share_weight: int | None = None,
    most_at_work: int | None = None,
    actor: str,
) -> Tenant | Refusal:
    """A new ACTIVE tenant without money or keys. Its id is the idempotency key: a second call with it is refused."""
    fault = (
        tenant_id_fault(tenant_id)
        or text_fault("display_name", display_name)
        or rate_fault("poll_rate_per_minute", poll_rate_per_minute)
        or rate_fault("submit_rate_per_minute", submit_rate_per_minute)
        or low_balance_fault(low_balance_usd_micros)
        or zone_fault(zone)
        or share_weight_fault(share_weight)
        or most_at_work_fault(most_at_work)
    )
    if fault is not None:
        return fault
    values = {
        "display_name": display_name,
        "poll_rate_per_minute": poll_rate_per_minute,
        "submit_rate_per_minute": submit_rate_per_minute,
        "refund_own_failures": refund_own_failures,
        "low_balance_usd_micros": low_balance_usd_micros,
        "zone": zone,
        "most_at_work": most_at_work,
    } | ({} if share_weight is None else {"share_weight": share_weight})
    with transaction.atomic():
        tenant, is_new = Tenant.objects.get_or_create(tenant_id=tenant_id, defaults=values)
        if not is_new:
            return Refusal(ReasonCode.CONFLICT, f"{tenant_id} exists already; choose another id", "tenant_id")
        _audit("tenant created", actor, tenant_id, after=values)
    return tenant


def update_tenant(
    *,
    tenant_id: str,
    display_name: str,
    poll_rate_per_minute: int,
    submit_rate_per_minute: int,
    refund_own_failures: bool = False,
    low_balance_usd_micros: int | None = None,
    zone: str | None = None,
    share_weight: int | None = None,
    most_at_work: int | None = None,
    actor: str,
) -> Tenant | Refusal:
    """Change the name, the rates, whether failures of ours are given back, below what the balance is low, and how many
    runs may be at work.

    Zone and weight stay where none is given.

    Each process follows when it reads the principal again (within 5 s)."""
    fault = (
        text_fault("display_name", display_name)
        or rate_fault("poll_rate_per_minute", poll_rate_per_minute)
        or rate_fault("submit_rate_per_minute", submit_rate_per_minute)
        or low_balance_fault(low_balance_usd_micros)
        or (None if zone is None else zone_fault(zone))
        or share_weight_fault(share_weight)
        or most_at_work_fault(most_at_work)
    )
    if fault is not None:
        return fault
    values = {
        "display_name": display_name,
        "poll_rate_per_minute": poll_rate_per_minute,
        "submit_rate_per_minute": submit_rate_per_minute,
        "refund_own_failures": refund_own_failures,
        "low_balance_usd_micros": low_balance_usd_micros,
        "most_at_work": most_at_work,
    }
    given = {"zone": zone, "share_weight": share_weight}
    values |= {name: value for name, value in given.items() if value is not None}
    return _change("tenant changed", actor, tenant_id, values)


BudgetSetting = Literal["zone", "low_balance_usd_micros"]


def change_budget_settings(*, tenant_id: str, changes: Mapping[BudgetSetting, Any], actor: str) -> Tenant | Refusal:
    """Change whose midnight ends a day of spending, or below what the balance is low; what is not named stays.

    A run that was accepted keeps its date. A zone further west opens no window again: the date of a scope in Redis,
    and the one a process remembers, never go back.
    """
    fault = low_balance_fault(changes.get("low_balance_usd_micros"))
    if fault is None and "zone" in changes:
        fault = zone_fault(changes["zone"])
    if fault is not None:
        return fault
    if tenant_id == OPERATOR_TENANT_ID:
        return invalid("tenant_id", f"{tenant_id} runs the platform and holds no money")
    values = {str(setting): value for setting, value in changes.items()}
    return _change("budget settings changed", actor, tenant_id, values)


def suspend_tenant(*, tenant_id: str, actor: str) -> Tenant | Refusal:
    """Make all its keys invalid from now on; runs accepted before go on and are charged. Safe to repeat."""
    if tenant_id == OPERATOR_TENANT_ID:
        return invalid("tenant_id", f"{tenant_id} runs the platform and cannot be suspended")
    return _change("tenant suspended", actor, tenant_id, {"status": Tenant.Status.SUSPENDED})


def resume_tenant(*, tenant_id: str, actor: str) -> Tenant | Refusal:
    """Make its keys valid again, except those revoked or expired. Safe to repeat."""
    return _change("tenant resumed", actor, tenant_id, {"status": Tenant.Status.ACTIVE})


def enable_submits(*, tenant_id: str, enabled: bool, actor: str, reason: str = "") -> Tenant | Refusal:
    """Accept new runs of the tenant, or refuse them as EXECUTION_DISABLED; accepted ones go on. Safe to repeat.

    Effective everywhere within 5 s, as a suspension is.
    """
    if tenant_id == OPERATOR_TENANT_ID:
        return invalid("tenant_id", f"{tenant_id} runs the platform and submits nothing")
    event = "submits enabled" if enabled else "submits disabled"
    return _change(event, actor, tenant_id, {"submits_enabled": enabled}, reason=reason)


def enable_automations(*, tenant_id: str, enabled: bool, actor: str) -> Tenant | Refusal:
    """Let rules of the operators' automations buy runs for the tenant, or have their events wait. Safe to repeat."""
    if tenant_id == OPERATOR_TENANT_ID:
        return invalid("tenant_id", f"{tenant_id} runs the platform and buys nothing")
    event = "automations enabled" if enabled else "automations disabled"
    return _change(event, actor, tenant_id, {"automations_enabled": enabled})


def stop_all_submits(*, stopped: bool, actor: str, reason: str) -> Tenant | Refusal:
    """Refuse new runs of every tenant as EXECUTION_DISABLED, or take them again; accepted ones go on. Safe to repeat.

    `t_operator` submits nothing, so its own mark stands for all: each tenant's is left as it is, and one that is made
    meanwhile is stopped as well. Effective everywhere within 5 s.
    """
    if (fault := text_fault("reason", reason)) is not None:
        return fault
    event = "all submits stopped" if stopped else "all submits resumed"
    return _change(event, actor, OPERATOR_TENANT_ID, {"submits_enabled": not stopped}, reason=reason)


def all_submits_are_stopped() -> bool:
    return Tenant.objects.filter(tenant_id=OPERATOR_TENANT_ID, submits_enabled=False).exists()


def _change(event: str, actor: str, tenant_id: str, values: dict[str, Any], *, reason: str = "") -> Tenant | Refusal:
    """Under the tenant's row lock, so that the trail's `before` is what stood there. The same again changes nothing."""
    with transaction.atomic():
        tenant = Tenant.objects.select_for_update(no_key=True).filter(tenant_id=tenant_id).first()
        if tenant is None:
            return _tenant_unknown(tenant_id)
        before, after = trail.differing_values({name: getattr(tenant, name) for name in values}, values)
        if after:
            Tenant.objects.filter(tenant_id=tenant_id).update(**after)
            _audit(event, actor, tenant_id, before=before, after=after, reason=reason)
    return Tenant.objects.get(tenant_id=tenant_id)


def issue_key(
    *,
    tenant_id: str,
    scopes: Iterable[str],
    label: str | None = None,
    expires_at: datetime | None = None,
    actor: str,
) -> IssuedKey | Refusal:
    """A new key. Not idempotent: asked twice it makes two, since a key cannot be shown a second time."""
    chosen = sorted(set(scopes))
    fault = key_fault(tenant_id=tenant_id, scopes=chosen, label=label, expires_at=expires_at)
    if fault is not None:
        return fault
    if not Tenant.objects.filter(tenant_id=tenant_id).exists():
        return _tenant_unknown(tenant_id)
    with transaction.atomic():
        issued = _store_new_key(tenant_id=tenant_id, scopes=chosen, label=label, expires_at=expires_at)
        after = {"scopes": chosen, "label": label, "expires_at": expires_at}
        _audit(KEY_ISSUED, actor, tenant_id, subject=issued.key, after=after)
    return issued


def rotate_key(
    *, key_id: uuid.UUID, grace: timedelta = GRACE_DEFAULT, ends_by: datetime | None = None, actor: str
) -> IssuedKey | Refusal:
    """A successor with the same scopes, label and lifetime; the old key ends `grace` from now, or earlier if it was to.

    What the two spend is counted together, and capped together. The successor ends at `ends_by` at the latest.
    One transaction under a lock on the old row: of two rotations at once, one gets a key and one KEY_REPLACED.
    """
    if not timedelta() <= grace <= GRACE_MAX:
        return invalid("grace", f"must be from 0 to {GRACE_MAX.days} days")
    with transaction.atomic():
        old = ApiKey.objects.select_for_update().filter(key_id=key_id).first()
        now = clock.now()
        fault = _rotation_fault(old, now)
        if old is None or fault is not None:
            return fault or _key_unknown()
        lifetime = None if old.expires_at is None else min(old.expires_at, EXPIRES_BEFORE) - old.created_at
        ends = [] if lifetime is None else [now + lifetime]
        issued = _store_new_key(
            tenant_id=old.tenant_id,
            scopes=old.scopes,
            label=old.label,
            expires_at=min([*ends, *([] if ends_by is None else [ends_by])], default=None),
            lineage_id=old.lineage_id,
        )
        ends_at = now + grace if old.expires_at is None else min(old.expires_at, now + grace)
        ApiKey.objects.filter(key_id=key_id).update(expires_at=ends_at, replaced_by=issued.key)
        _audit(
            KEY_ROTATED,
            actor,
            old.tenant_id,
            subject=old,
            before={"expires_at": old.expires_at},
            after={"expires_at": ends_at, "replaced_by": str(issued.key)},
        )
    return issued


def revoke_key(*, key_id: uuid.UUID, actor: str) -> ApiKey | Refusal:
    """Revoke the key at once; a successor made by rotation stays valid. Safe to repeat: the first time stands."""
    with transaction.atomic():
        changed = ApiKey.objects.filter(key_id=key_id, status=ApiKey.Status.ACTIVE).update(
            status=ApiKey.Status.REVOKED, revoked_at=clock.now()
        )
        key = ApiKey.objects.filter(key_id=key_id).first()
        if key is None:
            return _key_unknown()
        if changed:
            before, after = {"status": ApiKey.Status.ACTIVE}, {"status": ApiKey.Status.REVOKED}
            _audit("key revoked", actor, key.tenant_id, subject=key, before=before, after=after)
    return key


def state_of(key: ApiKey, now: datetime) -> Literal["ACTIVE", "ENDING", "EXPIRED", "REVOKED"]:
    """What a key is now, as pages and answers say it; ENDING is a rotated key in its grace period."""
    if key.status == ApiKey.Status.REVOKED:
        return "REVOKED"
    if key.expires_at is not None and key.expires_at <= now:
        return "EXPIRED"
    return "ACTIVE" if key.replaced_by_id is None else "ENDING"


def find_key(reference: str) -> ApiKey | Refusal:
    """Find a key by its id, its prefix (with or without `dpp_`), or the whole key (for a leaked one)."""
    text = reference.strip()
    prefix = keys.prefix_of(text) or text.removeprefix("dpp_")
    found = ApiKey.objects.filter(prefix=prefix).first() if keys.is_prefix(prefix) else None
    if found is None:
        try:
            found = ApiKey.objects.filter(key_id=uuid.UUID(text)).first()
        except ValueError:
            found = None
    return found or _key_unknown()


def _rotation_fault(old: ApiKey | None, now: datetime) -> Refusal | None:
    if old is None:
        return _key_unknown()
    if old.replaced_by_id is not None:
        return Refusal(ReasonCode.CONFLICT, f"{old} has a successor already; rotate that one", "key")
    if old.status != ApiKey.Status.ACTIVE or (old.expires_at is not None and old.expires_at <= now):
        return Refusal(ReasonCode.CONFLICT, f"{old} is revoked or expired; issue a new key instead", "key")
    return None


def _store_new_key(
    *,
    tenant_id: str,
    scopes: list[str],
    label: str | None,
    expires_at: datetime | None,
    lineage_id: uuid.UUID | None = None,
) -> IssuedKey:
    """Store the key; if its prefix (one of 62^8) is taken already, make another."""
    for attempt in range(3):
        new = keys.make_api_key()
        try:
            with transaction.atomic():
                key = ApiKey.objects.create(
                    tenant_id=tenant_id,
                    key_hash=new.key_hash,
                    prefix=new.prefix,
                    scopes=scopes,
                    label=label,
                    expires_at=expires_at,
                    lineage_id=lineage_id or uuid.uuid4(),
                )
        except IntegrityError:
            if attempt == 2 or not ApiKey.objects.filter(prefix=new.prefix).exists():
                raise
        else:
            return IssuedKey(key=key, plaintext=new.plaintext)
    raise AssertionError("the loop returns or raises")


def key_fault(
    *, tenant_id: str, scopes: Sequence[str], label: str | None, expires_at: datetime | None
) -> Refusal | None:
    """Validate the arguments of a new key: the fault, or None. Forms call it before they save."""
    fault = _scope_fault(tenant_id, scopes)
    if fault is None and label is not None:
        fault = text_fault("label", label)
    if fault is None and expires_at is not None and not clock.now() < expires_at < EXPIRES_BEFORE:
        fault = invalid("expires_at", f"must lie in the future, and before the year {EXPIRES_BEFORE.year}")
    return fault


def text_fault(field: str, text: str) -> Refusal | None:
    if text.strip() and len(text) <= TEXT_LENGTH_MAX and text.isprintable():
        return None
    return invalid(field, f"must be 1 to {TEXT_LENGTH_MAX} printable characters")


def rate_fault(field: str, rate_per_minute: int) -> Refusal | None:
    if 1 <= rate_per_minute <= RATE_PER_MINUTE_MAX:
        return None
    return invalid(field, f"must be a whole number from 1 to {RATE_PER_MINUTE_MAX}")


def low_balance_fault(micros: int | None) -> Refusal | None:
    if micros is None or 1 <= micros <= LOW_BALANCE_MICROS_MAX:
        return None
    return invalid("low_balance_usd_micros", f"must be a whole number from 1 to {LOW_BALANCE_MICROS_MAX}, or empty")


def share_weight_fault(weight: int | None) -> Refusal | None:
    if weight is None or 1 <= weight <= SHARE_WEIGHT_MAX:
        return None
    return invalid("share_weight", f"must be a whole number from 1 to {SHARE_WEIGHT_MAX}")


def most_at_work_fault(most: int | None) -> Refusal | None:
    if most is None or 1 <= most <= MOST_AT_WORK_MAX:
        return None
    return invalid("most_at_work", f"must be a whole number from 1 to {MOST_AT_WORK_MAX}, or empty")


def zone_fault(zone: str) -> Refusal | None:
    """Postgres dates runs by it, and Python says when their windows end: both must know it."""
    if re.fullmatch(ZONE_PATTERN, zone, re.ASCII) and not zone.startswith(_NO_PLACES) and _both_know(zone):
        return None
    return invalid("zone", "is no time zone known here; give one of the IANA names, such as Europe/Berlin or UTC")


def _both_know(zone: str) -> bool:
    """Of the one that almost every tenant has Postgres is not asked: to answer, it reads the files of all zones."""
    if zone == ZONE_DEFAULT:
        return True
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: it names a folder of zones, such as Europe
        return False
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT FROM pg_timezone_names WHERE name = %s)", [zone])
        return bool(cursor.fetchone()[0])


def tenant_id_fault(tenant_id: str) -> Refusal | None:
    if re.fullmatch(TENANT_ID_PATTERN, tenant_id, re.ASCII) is not None and not tenant_id.endswith("\n"):
        return None
    return invalid("tenant_id", "must be t_ and 1 to 60 of a-z, 0-9 and _, for example t_acme")


def _scope_fault(tenant_id: str, scopes: Sequence[str]) -> Refusal | None:
    allowed = allowed_for(tenant_id)
    names = ", ".join(sorted(allowed))
    if not scopes:
        return invalid("scopes", f"at least one is needed, of: {names}")
    wrong = [scope for scope in scopes if scope not in set(Scope)]
    if wrong:
        return invalid("scopes", f"{wrong[0]!r} is no scope; choose of: {names}")
    misplaced = [scope for scope in scopes if scope not in allowed]
    if misplaced:
        return invalid("scopes", f"keys of {tenant_id} cannot carry {misplaced[0]}; choose of: {names}")
    return None


def _tenant_unknown(tenant_id: str) -> Refusal:
    return Refusal(ReasonCode.NOT_FOUND, f"there is no tenant {tenant_id}; see list_tenants", "tenant_id")


def _key_unknown() -> Refusal:
    return Refusal(
        ReasonCode.NOT_FOUND, "there is no such key; give its id or its prefix, see list_tenants --keys", "key"
    )


def _audit(
    event: str,
    actor: str,
    tenant_id: str,
    *,
    subject: ApiKey | None = None,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    reason: str = "",
) -> None:
    """On a key, or on the tenant itself."""
    named = f"tenant {tenant_id}" if subject is None else f"key {subject}"
    trail.record_in_trail(
        event, actor=actor, subject=named, tenant_id=tenant_id, before=before, after=after, reason=reason
    )
    names = {} if subject is None else {"key_id": str(subject.key_id), "prefix": subject.prefix}
    transaction.on_commit(partial(log.info, event, actor=actor, tenant_id=tenant_id, **names, **(after or {})))
