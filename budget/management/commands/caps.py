"""manage.py caps show t_acme, caps set t_acme --day 5.0000 --month none, caps clear t_acme --key dpp_1a2B3c4D"""

import uuid
from typing import Any, Final

from django.core.management.base import CommandParser

from budget.caps import reading, rows, setting
from budget.caps.figures import LIMIT_WORDS, CapFigures
from budget.caps.reading import CapsStanding
from budget.caps.setting import CapsSet
from budget.money import MAX_MICROS, AmountInvalid, format_exact_usd, format_usd, parse_usd
from budget.outcomes import Unavailable
from budget.redis.windows import PERIODS, CapPeriod
from dpp_project import actors
from dpp_project.management.base import CommandAnswer, CommandRefused, OpsCommand, unless_refused
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal, invalid
from tenants import services
from tenants.models import ApiKey, Tenant

ACTS: Final = ("show", "set", "clear")
NONE: Final = "none"
NOT_ENFORCED: Final = (
    "It is stored, and not in force yet: Redis is away, or the money is being rebuilt. The next run brings it; so does"
    " the same command again."
)


class Command(OpsCommand):
    help = (
        "Spend caps of a tenant, or of one of its keys with its rotations: what the runs of a day, a week from Monday,"
        " a month, and ever may cost, in the tenant's time zone. `show` says what is used, held and left of each; `set`"
        " changes the periods that are named and leaves the others; `clear` takes all of them away. A lowered cap stops"
        " the next run and ends none. Set the first caps when every process of an older release has gone."
    )
    changes = True

    def declare(self, parser: CommandParser) -> None:
        parser.add_argument("do", choices=ACTS)
        parser.add_argument("tenant_id", help="whose caps, such as t_acme")
        parser.add_argument("--key", help="of this key and its rotations: its id or its prefix, such as dpp_1a2B3c4D")
        for period in PERIODS:
            parser.add_argument(
                f"--{period}",
                metavar="USD",
                help=f"set: at most so much {LIMIT_WORDS[period]}, with four decimals, such as 5.0000; 0.0000 stops"
                f" every run, {NONE} takes the limit away",
            )
        parser.add_argument(
            "--reason", default="", help="set and clear: kept in the audit trail, which the tenant reads"
        )

    def run(self, *, dry_run: bool, **options: Any) -> CommandAnswer:
        tenant_id, key = options["tenant_id"], _capped_key_by_option(options["tenant_id"], options["key"])
        named = {period: options[period] for period in PERIODS if options[period] is not None}
        if options["do"] != "set" and named:
            _refuse_caps_option(f"--{next(iter(named))}", f"belongs to `set`; `{options['do']}` takes no amounts")
        if options["do"] == "show":
            return _shown_caps_answer(tenant_id, key)
        if options["do"] == "set" and not named:
            _refuse_caps_option("--day", "name at least one of --day, --week, --month and --total")
        changes: dict[CapPeriod, int | None] = {period: _micros(period, named[period]) for period in named}
        if options["reason"] and (fault := services.text_fault("--reason", options["reason"])) is not None:
            raise CommandRefused(fault)
        answer = unless_refused(
            setting.set_caps(
                tenant_id=tenant_id,
                lineage_id=None if key is None else key.lineage_id,
                changes=changes or dict(rows.NO_LIMITS),
                actor=actors.COMMAND,
                reason=options["reason"],
                dry_run=dry_run,
            )
        )
        return _set(tenant_id, key, answer, dry_run=dry_run)


def _capped_key_by_option(tenant_id: str, reference: str | None) -> ApiKey | None:
    if not Tenant.objects.filter(tenant_id=tenant_id).exists():
        detail = f"there is no tenant {tenant_id}; see list_tenants"
        raise CommandRefused(Refusal(ReasonCode.NOT_FOUND, detail, "tenant_id"))
    if reference is None:
        return None
    key = services.find_key(reference)
    if isinstance(key, Refusal) or key.tenant_id != tenant_id:
        detail = f"{tenant_id} has no such key; give its id or its prefix, see list_tenants --keys"
        raise CommandRefused(Refusal(ReasonCode.NOT_FOUND, detail, "--key"))
    return key


def _micros(period: str, text: str) -> int | None:
    if text == NONE:
        return None
    try:
        return parse_usd(text, least=0)
    except AmountInvalid:
        detail = f"four decimals, 0.0000 to {format_usd(MAX_MICROS)}, such as 5.0000; {NONE} takes the limit away"
        raise CommandRefused(invalid(f"--{period}", detail)) from None


def _refuse_caps_option(field: str, detail: str) -> None:
    raise CommandRefused(invalid(field, detail))


def _set(tenant_id: str, key: ApiKey | None, answer: CapsSet, *, dry_run: bool) -> CommandAnswer:
    limits = {
        f"{period}_usd": None if (limit := answer.limits[period]) is None else format_usd(limit) for period in PERIODS
    }
    document = {
        "tenant_id": tenant_id,
        "key": None if key is None else str(key),
        "caps": limits,
        "revision": answer.revision,
        "changed": answer.changed,
        "enforced": answer.enforced,
    }
    named = ", ".join(f"{name.removesuffix('_usd')} {usd}" for name, usd in limits.items() if usd is not None)
    line = f"{tenant_id if key is None else key}: {named or 'no caps'} (revision {answer.revision})"
    return CommandAnswer(document, [line], [] if answer.enforced or dry_run else [NOT_ENFORCED])


def _shown_caps_answer(tenant_id: str, key: ApiKey | None) -> CommandAnswer:
    """Of one key, or of the tenant and all its keys that have caps."""
    stand = reading.caps_standing(tenant_id, None if key is None else [key.lineage_id])
    seen = reading.counted_caps(stand)
    remarks = [f"Days end at midnight in {stand.zone}; it is {stand.today} there."]
    wanted = [scope for scope in stand.scopes if key is None or scope is not None]
    names = _shown_caps_scope_names(tenant_id, wanted)
    if isinstance(seen, Unavailable):
        limits = {scope: _limits(stand, scope) for scope in wanted}
        lines = [f"{names[scope]}: {amounts}" for scope, amounts in limits.items()]
        remarks.append("Balances are being rebuilt, or Redis is away: what is used and left is not known now.")
        return CommandAnswer(_shown_caps_document(stand, []), lines, remarks, exit_code=3)
    figures = [(names[scope], one) for scope in wanted for one in reading.cap_figures(stand, scope, seen.get(scope))]
    documents = [{"name": name} | one.document() for name, one in figures]
    return CommandAnswer(
        _shown_caps_document(stand, documents), list(_shown_caps_table(figures)) or ["no caps"], remarks
    )


def _shown_caps_document(stand: CapsStanding, caps: list[dict[str, Any]]) -> dict[str, Any]:
    return {"tenant_id": stand.tenant_id, "zone": stand.zone, "today": str(stand.today), "caps": caps}


def _shown_caps_scope_names(tenant_id: str, scopes: list[str | None]) -> dict[str | None, str]:
    keys = rows.newest_keys(tenant_id, [uuid.UUID(scope) for scope in scopes if scope is not None])
    return {scope: tenant_id if scope is None else str(keys[uuid.UUID(scope)]) for scope in scopes}


def _limits(stand: CapsStanding, scope: str | None) -> str:
    limits = rows.limits_of(rows.row_of(stand.tenant_id, None if scope is None else uuid.UUID(scope)))
    return ", ".join(f"{period} {format_usd(limit)}" for period in PERIODS if (limit := limits[period]) is not None)


def _shown_caps_table(figures: list[tuple[str, CapFigures]]) -> list[str]:
    """To the micro: with fewer decimals what is used, held and left would not add up to the limit."""
    width = max((len(name) for name, _one in figures), default=0)
    lines = [f"{'':{width}}  {'window':16}  {'limit':>17}  {'used':>17}  {'held':>17}  {'left, USD':>17}  resets at"]
    for name, one in figures:
        amounts = (one.limit_micros, one.used_micros, one.held_micros, one.left_micros)
        shown = "  ".join(f"{format_exact_usd(micros):>17}" for micros in amounts)
        ends = "never" if one.resets_at is None else one.resets_at.isoformat()
        window = one.window if one.period == "total" else f"{one.period} {one.window}"
        lines.append(f"{name:{width}}  {window:16}  {shown}  {ends}")
    return lines if figures else []
