"""The console's page for runs (DPP-75): to read and to follow; what changes a run goes through the services."""

import re
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.decorators import action, display
from unfold.enums import ActionVariant

from budget.money import format_exact_usd
from dpp_project import actors, clock
from dpp_project.console import confirm
from dpp_project.console.row_admin import ReadOnlyAdmin
from dpp_project.constants import RETENTION_DAYS
from dpp_project.refusals import Refusal
from runs import run_ids, run_page
from runs.filters_admin import (
    MadeFilter,
    MoneyStateFilter,
    PackFilter,
    ReasonFilter,
    StageFilter,
    StatusFilter,
    TenantFilter,
)
from runs.models import Run, RunDispute, RunMetadata
from runs.operators import disputes, explain_run
from runs.operators.forms import ReasonForm
from runs.operators.interventions import Interventions, interventions_for
from runs.states import MoneyState

STATUS_COLORS = {
    "QUEUED": "info",
    "PROCESSING": "warning",
    "COMPLETED": "success",
    "FAILED": "danger",
    "EXPIRED": "default",
}
MONEY_COLORS = {
    "NONE": "default",
    "RESERVED": "info",
    "SETTLED": "success",
    "REFUNDED": "default",
    "DISPUTED": "danger",
}
DISPUTES = {MoneyState.SETTLED: {"dispute"}, MoneyState.DISPUTED: {"uphold", "refund"}}
SEARCHED = timedelta(days=RETENTION_DAYS)


SEARCHED_METADATA: Final = re.compile(r"(?:(?P<tenant_id>\S+) )?(?P<key>[\w.:-]{1,40})=(?P<value>.+)", re.DOTALL)


def _with_metadata(tenant_id: str | None, key: str, value: str) -> QuerySet[RunMetadata, uuid.UUID]:
    found = RunMetadata.objects.filter(key=key, value=value)
    if tenant_id is not None:
        found = found.filter(tenant_id=tenant_id)
    return found.values_list("run_id", flat=True)


@admin.register(Run)
class RunAdmin(Interventions, ReadOnlyAdmin):
    empty_said = "The first submit makes the first run; /docs/ has a request to copy."
    list_display = ("run_id", "tenant_id", "pack_type", "state", "money", "held", "charged", "reason", "made")
    list_filter = (TenantFilter, StatusFilter, MoneyStateFilter, PackFilter, ReasonFilter, MadeFilter, StageFilter)
    list_filter_submit = True
    list_per_page = 50
    change_form_before_template = "admin/runs/life.html"
    search_fields = ("run_id",)
    search_help_text = (
        f"A run's id, or a tenant's; metadata as key=value, after a tenant's id or alone; a trace id or an "
        f"Idempotency-Key of the last {RETENTION_DAYS} days."
    )
    ordering = ("-run_id",)
    actions = ("cancel_selected", "requeue_selected")
    actions_detail = ("cancel", "requeue", "dispute", "uphold", "refund", "delete_data")
    fieldsets = (
        (None, {"fields": ("timeline", "disputed", "metadata_told")}),
        (
            "Run",
            {
                "fields": (
                    *("run_id", "tenant_id", "pack_type", "profile_version", "trace_id", "idempotency_key"),
                    *("payload_hash", "price_version", "created_at", "updated_at", "retention_until"),
                )
            },
        ),
        ("Money", {"fields": ("money", "held", "minimum_fee", "charged", "tokens_consumed")}),
        (
            "State",
            {
                "fields": (
                    *("state", "finalize_stage", "version", "last_actor", "reason", "last_error_detail"),
                    *("lease_expires_at", "finalize_claimed_at", "intended", "next_send_at", "send_count"),
                    *("dead_lettered_at", "result_bucket", "result_key", "result_sha256"),
                )
            },
        ),
    )

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """With `?result=1` the result's beginning, for those who may do something to the run."""
        run: Run | None = self.get_object(request, object_id) if self.has_view_permission(request) else None
        may_preview = self.has_manage_permission(request)
        told = {} if run is None else run_page.context_of(run, previews=may_preview and "result" in request.GET)
        context = {**told, "may_preview": may_preview, **(extra_context or {})}
        answer: HttpResponse = super().change_view(request, object_id, form_url, context)
        return answer

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        del request, obj
        return [field for _, options in self.fieldsets for field in options["fields"]]

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Run], search_term: str
    ) -> tuple[QuerySet[Run], bool]:
        """By index only: the ids of the last days are a range of the primary key."""
        term = search_term.strip()
        if not term:
            return queryset, False
        if of_metadata := SEARCHED_METADATA.fullmatch(term):
            return queryset.filter(run_id__in=_with_metadata(**of_metadata.groupdict())), False
        try:
            wanted = Q(run_id=uuid.UUID(term))
        except ValueError:
            wanted = Q(tenant_id=term)
        lately = Q(run_id__gte=run_ids.first_run_id_at(clock.now() - SEARCHED))
        return queryset.filter(wanted | lately & (Q(trace_id=term) | Q(idempotency_key=term))), False

    # Columns

    @display(description="status", ordering="status", label=STATUS_COLORS)  # type: ignore[untyped-decorator]
    def state(self, run: Run) -> str:
        return run.status

    @display(description="money", ordering="money_state", label=MONEY_COLORS)  # type: ignore[untyped-decorator]
    def money(self, run: Run) -> str:
        return run.money_state

    @display(description="held")  # type: ignore[untyped-decorator]
    def held(self, run: Run) -> str:
        return f"${format_exact_usd(run.reservation_max_cost_usd_micros)}"

    @display(description="minimum fee")  # type: ignore[untyped-decorator]
    def minimum_fee(self, run: Run) -> str:
        return f"${format_exact_usd(run.minimum_fee_usd_micros)}"

    @display(description="charged")  # type: ignore[untyped-decorator]
    def charged(self, run: Run) -> str:
        return "-" if run.actual_cost_usd_micros is None else f"${format_exact_usd(run.actual_cost_usd_micros)}"

    @display(description="reason")  # type: ignore[untyped-decorator]
    def reason(self, run: Run) -> str:
        return run.last_error_reason_code or "-"

    @display(description="intent")  # type: ignore[untyped-decorator]
    def intended(self, run: Run) -> str:
        if run.intent_status is None:
            return "-"
        said = f"{run.intent_status}, {run.intent_money_state}, ${format_exact_usd(run.intent_charge_usd_micros or 0)}"
        return said + (f", {run.intent_reason_code}" if run.intent_reason_code else "")

    @display(description="created (UTC)")  # type: ignore[untyped-decorator]
    def made(self, run: Run) -> str:
        return f"{run.created_at:%Y-%m-%d %H:%M:%S}"

    # In words

    @display(description="timeline")  # type: ignore[untyped-decorator]
    def timeline(self, run: Run) -> SafeString:
        return _run_admin_table(
            ("at", "version", "state", "by"),
            [
                (
                    f"{step.at:%Y-%m-%d %H:%M:%S.%f}",
                    step.version,
                    explain_run.state_in_words(step.status, step.money_state, step.stage),
                    step.actor,
                )
                for step in explain_run.run_timeline(run)
            ],
        )

    @display(description="disputes")  # type: ignore[untyped-decorator]
    def disputed(self, run: Run) -> SafeString | str:
        steps = RunDispute.objects.filter(run=run).order_by("version")
        rows = [(f"{step.at:%Y-%m-%d %H:%M:%S}", step.step, step.actor, step.reason) for step in steps]
        return _run_admin_table(("at", "step", "by", "why"), rows) if rows else "-"

    @display(description="metadata")  # type: ignore[untyped-decorator]
    def metadata_told(self, run: Run) -> SafeString | str:
        rows = list(RunMetadata.objects.filter(run=run).order_by("key").values_list("key", "value"))
        return _run_admin_table(("key", "value"), rows) if rows else "-"

    # What an operator may do

    def get_actions_detail(self, request: HttpRequest, object_id: str) -> list[Any]:
        """Those that the run's state and its money allow."""
        run: Run | None = self.get_object(request, object_id)
        fitting = set() if run is None else DISPUTES.get(MoneyState(run.money_state), set()) | interventions_for(run)
        return [item for item in super().get_actions_detail(request, object_id) if item.path in fitting]

    @action(description="Dispute", icon="gavel", permissions=["manage"])  # type: ignore[untyped-decorator]
    def dispute(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._with_reason(
            request,
            object_id,
            use_case=disputes.open_dispute,
            title="Dispute the charge",
            text="The charge is marked as disputed until an operator upholds or refunds it. No money moves.",
            done="Disputed.",
        )

    @action(description="Uphold", icon="check", permissions=["manage"])  # type: ignore[untyped-decorator]
    def uphold(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._with_reason(
            request,
            object_id,
            use_case=disputes.uphold_dispute,
            title="Uphold the charge",
            text="The charge was right and stands.",
            done="Upheld.",
        )

    @action(description="Refund", icon="undo", variant=ActionVariant.DANGER, permissions=["manage"])  # type: ignore[untyped-decorator]
    def refund(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._with_reason(
            request,
            object_id,
            use_case=disputes.refund_dispute,
            title="Refund the charge",
            text="The whole charge goes back to the tenant by an ADJUST entry. This cannot be undone.",
            done="Refunded.",
        )

    def _with_reason(
        self,
        request: HttpRequest,
        object_id: str,
        *,
        use_case: Callable[..., Run | Refusal],
        title: str,
        text: str,
        done: str,
    ) -> HttpResponse:
        run = self.get_object(request, object_id)
        if run is None:
            raise Http404

        def act(form: ReasonForm) -> HttpResponse:
            reason = form.cleaned_data["reason"]
            answer = use_case(run_id=run.run_id, reason=reason, actor=actors.person_actor(request.user))
            if isinstance(answer, Refusal):
                self.message_user(request, f"Nothing was changed: {answer.detail}.", messages.ERROR)
            else:
                self.log_change(request, run, f"{done} {reason}")
                self.message_user(request, done, messages.SUCCESS)
            return HttpResponseRedirect(reverse("admin:runs_run_change", args=[run.pk]))

        return confirm.confirm_page(
            self,
            request,
            run,
            title=title,
            text=text,
            submit=title.split(maxsplit=1)[0],
            form_class=ReasonForm,
            act=act,
        )

    def has_manage_permission(self, request: HttpRequest, _object_id: Any = None) -> bool:
        return bool(request.user.has_perm("runs.change_run"))


def _run_admin_table(headers: tuple[str, ...], rows: list[tuple[Any, ...]]) -> SafeString:
    head = format_html_join("", "<th>{}</th>", ((header,) for header in headers))
    cells = (format_html_join("", "<td>{}</td>", ((cell,) for cell in row)) for row in rows)
    body = format_html_join("", "<tr>{}</tr>", ((row,) for row in cells))
    return format_html(
        '<div class="dpp-steps"><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>', head, body
    )
