"""The console's pages for money (DPP-75): accounts with their actions, the ledger to read."""

import uuid
from collections.abc import Callable
from datetime import UTC, timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.db import Error
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import reverse
from redis import RedisError
from unfold.decorators import action, display

from budget import caps_page, entries, repairs, statements
from budget.account import months
from budget.account.money_pages import csv_file
from budget.api import csv_answer
from budget.caps import rows, setting
from budget.entries import Entered
from budget.forms import AdjustForm, CapsForm, TopUpForm
from budget.models import Account, LedgerEntry, PendingCredit
from budget.money import format_exact_usd, format_plain_usd, format_usd
from budget.rebuild.evidence import LedgerBehind
from budget.rebuild.rebuild import RebuildFailed, Rebuilt
from budget.statements import Overview
from budget.usage import overview, ranges
from budget.usage.overview import UsageOverview
from budget.usage.reading import UsageTotals
from budget.verification import verify
from dpp_project import actors, clock
from dpp_project.console import confirm
from dpp_project.console.dashboard import Plot
from dpp_project.console.row_admin import ReadOnlyAdmin
from dpp_project.http.problems import Problem
from dpp_project.refusals import Refusal
from tenants import key_page
from tenants.models import ApiKey
from tenants.scopes import OPERATOR_TENANT_ID

NOT_ENFORCED = (
    "The caps are stored, and not in force yet: money is being rebuilt. The next run brings them; so does setting them"
    " again."
)
WHAT_RUNS_MAY_COST = "What runs may cost, of all keys together."
WHAT_ITS_RUNS_MAY_COST = "What runs of this key, and of its rotations, may cost."
THEIR_OWN = (
    "Caps are the tenant's own: a key of theirs with keys:write and no cap can change them. To hold a tenant back, stop"
    " its submits, or suspend it."
)
STATEMENTS_SHOWN = 6
KIND_COLORS = {"TOPUP": "success", "CHARGE": "info", "ADJUST": "warning"}


key_page.register_key_panel(caps_page.KEY_PANEL)


@admin.register(Account)
class AccountAdmin(ReadOnlyAdmin):
    list_display = ("tenant_id", "display_name", "balance", "held", "charged", "credited")
    search_fields = ("tenant_id", "display_name")
    list_per_page = 50
    fields = readonly_fields = ("tenant_id", "display_name", "status", "balance", "held", "charged", "credited")
    actions_detail = ("statement", "top_up", "adjust", "set_caps", "prove", "rebuild")
    change_form_after_template = "admin/budget/account.html"

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).exclude(pk=OPERATOR_TENANT_ID)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        tenant_id = unquote(object_id)
        usage = overview.usage_overview(tenant_id)
        context = {} if usage is None else _usage_context(usage)
        if Account.objects.filter(pk=tenant_id).exists():
            context |= {"caps": caps_page.of_account(tenant_id), "may_manage": self.has_manage_permission(request)}
        context |= {"entries": _entries_of(tenant_id), "statements": _statements_of(tenant_id)} | (extra_context or {})
        answer: HttpResponse = super().change_view(request, object_id, form_url, context)
        return answer

    @display(description="balance, USD")  # type: ignore[untyped-decorator]
    def balance(self, account: Account) -> str:
        seen = _admin_money_overview(account)
        return "being rebuilt" if seen is None else format_exact_usd(seen.balance_micros)

    @display(description="held, USD")  # type: ignore[untyped-decorator]
    def held(self, account: Account) -> str:
        seen = _admin_money_overview(account)
        return "" if seen is None else format_exact_usd(seen.held_micros)

    @display(description="charged, USD")  # type: ignore[untyped-decorator]
    def charged(self, account: Account) -> str:
        seen = _admin_money_overview(account)
        return "" if seen is None else format_exact_usd(seen.charged_micros)

    @display(description="credited, USD")  # type: ignore[untyped-decorator]
    def credited(self, account: Account) -> str:
        seen = _admin_money_overview(account)
        return "" if seen is None else format_exact_usd(seen.credited_micros)

    def has_manage_permission(self, request: HttpRequest, _object_id: Any = None) -> bool:
        return bool(request.user.has_perm("budget.add_ledgerentry"))

    @action(description="Statement", icon="receipt_long", permissions=["view"])  # type: ignore[untyped-decorator]
    def statement(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """A month as CSV, as the tenant itself gets it: the running one, or `?month=2026-11`."""
        account = self._found(request, unquote(object_id))
        try:
            month = months.asked_month(request, account.tenant_id)
            return csv_file(
                account.tenant_id,
                f"statement-{month.text}",
                csv_answer.statement_csv_rows(account.tenant_id, month.period()),
            )
        except Problem as problem:
            self.message_user(request, problem.detail, messages.ERROR)
            return HttpResponseRedirect(reverse("admin:budget_account_change", args=[account.pk]))

    @action(description="Top up", icon="add_card", permissions=["manage"])  # type: ignore[untyped-decorator]
    def top_up(self, request: HttpRequest, object_id: str) -> HttpResponse:
        object_id = unquote(object_id)
        return self._enter(request, object_id, title="Top up", form_class=TopUpForm, use_case=entries.top_up)

    @action(description="Adjust", icon="balance", permissions=["manage"])  # type: ignore[untyped-decorator]
    def adjust(self, request: HttpRequest, object_id: str) -> HttpResponse:
        object_id = unquote(object_id)
        return self._enter(request, object_id, title="Adjust", form_class=AdjustForm, use_case=entries.adjust_balance)

    @action(description="Spend caps", icon="speed", permissions=["manage"])  # type: ignore[untyped-decorator]
    def set_caps(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Of the account, or with `?lineage=` of one of its keys."""
        object_id = unquote(object_id)
        account, key = self._found(request, object_id), _admin_key_of_lineage(object_id, request.GET.get("lineage"))
        lineage_id = None if key is None else key.lineage_id
        limits = rows.limits_of(rows.row_of(object_id, lineage_id))

        def act(form: CapsForm) -> HttpResponse:
            answer = setting.set_caps(
                tenant_id=object_id,
                lineage_id=lineage_id,
                changes=form.changes(),
                actor=actors.person_actor(request.user),
                reason=form.cleaned_data["reason"],
            )
            if isinstance(answer, Refusal):
                return self._tell(request, account, messages.ERROR, f"{answer.field}: {answer.detail}")
            if not answer.enforced:
                return self._tell(request, account, messages.WARNING, NOT_ENFORCED)
            return self._tell(
                request, account, messages.SUCCESS, f"The caps are in force (revision {answer.revision})."
            )

        return confirm.confirm_page(
            self,
            request,
            account if key is None else key,
            title="Spend caps",
            text=f"{WHAT_RUNS_MAY_COST if key is None else WHAT_ITS_RUNS_MAY_COST} {THEIR_OWN}",
            submit="Set",
            form_class=CapsForm,
            act=act,
            back=reverse("admin:budget_account_change", args=[object_id]),
            initial={f"{period}_usd": format_usd(limit) for period, limit in limits.items() if limit is not None},
        )

    @action(description="Verify", icon="fact_check", permissions=["manage"])  # type: ignore[untyped-decorator]
    def prove(self, request: HttpRequest, object_id: str) -> HttpResponse:
        object_id = unquote(object_id)
        account = self._found(request, object_id)
        return confirm.confirm_page(
            self,
            request,
            account,
            title="Verify the balance",
            text="Compares ledger, balance and holds, to the micro. Nothing is changed.",
            submit="Prove",
            form_class=forms.Form,
            act=lambda _form: self._tell(request, account, *_proof(object_id)),
        )

    @action(description="Rebuild", icon="build", permissions=["manage"])  # type: ignore[untyped-decorator]
    def rebuild(self, request: HttpRequest, object_id: str) -> HttpResponse:
        object_id = unquote(object_id)
        account = self._found(request, object_id)
        return confirm.confirm_page(
            self,
            request,
            account,
            title="Rebuild from the ledger",
            text="Balance and holds are rebuilt from Postgres. Until then this tenant's requests for money wait.",
            submit="Rebuild",
            form_class=forms.Form,
            act=lambda _form: self._tell(request, account, *_rebuilt(object_id, actors.person_actor(request.user))),
        )

    def _enter(
        self,
        request: HttpRequest,
        object_id: str,
        *,
        title: str,
        form_class: type[TopUpForm],
        use_case: Callable[..., Entered | Refusal],
    ) -> HttpResponse:
        account = self._found(request, object_id)

        def act(form: TopUpForm) -> HttpResponse:
            answer = use_case(
                tenant_id=object_id,
                amount_micros=form.cleaned_data["amount_usd"],
                reference=form.cleaned_data["reference"],
                reason=form.cleaned_data["reason"],
                actor=actors.person_actor(request.user),
            )
            if isinstance(answer, Refusal):
                return self._tell(request, account, messages.ERROR, f"{answer.field}: {answer.detail}")
            said = "Entered" if answer.is_new else "Was entered before"
            return self._tell(request, account, messages.SUCCESS, f"{said}: {answer.entry}.")

        return confirm.confirm_page(
            self,
            request,
            account,
            title=title,
            text="The entry stays in the ledger for good; only another entry can offset it.",
            submit=title,
            form_class=form_class,
            act=act,
        )

    def _found(self, request: HttpRequest, object_id: str) -> Account:
        account: Account | None = self.get_object(request, object_id)
        if account is None:
            raise Http404
        return account

    def _tell(self, request: HttpRequest, account: Account, level: int, said: str) -> HttpResponse:
        if level == messages.SUCCESS:
            self.log_change(request, account, said)
        self.message_user(request, said, level)
        return HttpResponseRedirect(reverse("admin:budget_account_change", args=[account.pk]))


@admin.register(LedgerEntry)
class LedgerEntryAdmin(ReadOnlyAdmin):
    list_display = ("created_at", "tenant", "kind_shown", "amount", "reference", "run_id", "reason", "actor")
    list_filter = ("kind", "created_at")
    list_select_related = ("tenant",)
    search_fields = ("tenant__tenant_id__exact", "reference__exact", "run_id__exact")
    ordering = ("-created_at", "-entry_id")
    fields = readonly_fields = (
        *("entry_id", "tenant", "kind", "amount", "amount_usd_micros", "run_id", "reference", "reason", "actor"),
        "created_at",
    )

    @display(description="kind", ordering="kind", label=KIND_COLORS)  # type: ignore[untyped-decorator]
    def kind_shown(self, entry: LedgerEntry) -> str:
        return entry.kind

    @display(description="USD", ordering="amount_usd_micros")  # type: ignore[untyped-decorator]
    def amount(self, entry: LedgerEntry) -> str:
        return format_exact_usd(entry.amount_usd_micros)


@admin.register(PendingCredit)
class PendingCreditAdmin(ReadOnlyAdmin):
    empty_said = "Every credit has reached its balance."
    list_display = ("created_at", "tenant", "amount_usd_micros", "entry")
    list_select_related = ("tenant", "entry")


def _admin_money_overview(account: Any) -> Overview | None:
    """Read once for a row's four columns."""
    if not hasattr(account, "seen_of_money"):
        found = statements.money_overview(account.tenant_id)
        account.seen_of_money = found if isinstance(found, Overview) else None
    seen: Overview | None = account.seen_of_money
    return seen


AMOUNTS = ("net, USD", "charged", "given back", "runs", "tokens")


def _usage_context(usage: UsageOverview) -> dict[str, Any]:
    """What spending.html shows."""
    charged = [format_plain_usd(total.charged_micros) for _, total in usage.days]
    back = [format_plain_usd(total.credited_micros) for _, total in usage.days]
    series = {"charged": charged} | ({"given back": back} if usage.total.credited_micros else {})
    return {
        "usage": usage,
        "usage_plot": Plot(labels=[f"{day:%d %b}" for day, _ in usage.days], series=series, stacked=False, unit="USD"),
        "usage_total": dict(zip(AMOUNTS, _admin_usage_amounts(usage.total), strict=True)),
        "usage_tables": [
            {"headers": [name, *AMOUNTS], "rows": [[group, *_admin_usage_amounts(total)] for group, total in groups]}
            for name, groups in (("pack", usage.packs), ("key", usage.keys))
            if groups
        ],
    }


def _admin_usage_amounts(total: UsageTotals) -> tuple[str, ...]:
    micros = (total.net_micros, total.charged_micros, total.credited_micros)
    return (*(format_exact_usd(each) for each in micros), f"{total.runs:,}", f"{total.tokens:,}")


def _admin_key_of_lineage(tenant_id: str, lineage: str | None) -> ApiKey | None:
    if lineage is None:
        return None
    try:
        lineage_id = uuid.UUID(lineage)
    except ValueError:
        raise Http404 from None
    key = rows.newest_keys(tenant_id, [lineage_id]).get(lineage_id)
    if key is None:
        raise Http404
    return key


def _entries_of(tenant_id: str) -> str:
    return f"{reverse('admin:budget_ledgerentry_changelist')}?q={tenant_id}"


def _statements_of(tenant_id: str) -> list[tuple[str, str]]:
    """The last months, each with the address of its file; the tenant's zone decides which they are."""
    found = ranges.zone_and_today(tenant_id)
    if found is None:
        return []
    address = reverse("admin:budget_account_statement", args=[tenant_id])
    firsts = [found[1].replace(day=1)]
    while len(firsts) < STATEMENTS_SHOWN:
        firsts.append((firsts[-1] - timedelta(days=1)).replace(day=1))
    return [(f"{first:%B %Y}", f"{address}?month={first:%Y-%m}") for first in firsts]


def _proof(tenant_id: str) -> tuple[int, str]:
    try:
        proof = verify.verify_tenant_money(tenant_id)
    except (RedisError, Error) as error:
        return messages.ERROR, f"A service does not answer ({type(error).__name__})."
    if proof.verdict is verify.Verdict.DIFFERS:
        rows = "; ".join(
            f"{it.kind} expected {it.expected_micros}, found {it.found_micros}" for it in proof.differences
        )
        return messages.ERROR, rows
    at = clock.now().astimezone(UTC)
    return messages.INFO, f"{proof.verdict.value.capitalize()} at {at:%H:%M:%S} UTC."


def _rebuilt(tenant_id: str, actor: str) -> tuple[int, str]:
    try:
        made = repairs.rebuild_by_hand(tenant_id, actor=actor)
    except LedgerBehind as behind:
        return messages.ERROR, f"{behind}; nothing can be rebuilt from it (docs/operations.md)."
    except (RedisError, Error, RebuildFailed) as error:
        return messages.ERROR, f"It could not be rebuilt ({type(error).__name__}); the gate watch tries again."
    if isinstance(made, Refusal):
        return messages.ERROR, f"Nothing was rebuilt: it {made.detail}."
    if not isinstance(made, Rebuilt):
        return messages.WARNING, "Another rebuild is at work, or all money waits for one; try again when it has ended."
    return messages.SUCCESS, f"Rebuilt: {format_exact_usd(made.balance_micros)} USD, {made.holds} holds."
