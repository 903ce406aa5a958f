"""Auth errors in the console: faults with their trend, each error with its life, decisions in two clicks, rules."""

import uuid
from typing import Any, Final

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.decorators import action, display
from unfold.views import ChangeList
from unfold.widgets import UnfoldAdminTextInputWidget

from dpp_project import actors, clock
from dpp_project.console import confirm
from dpp_project.console.row_admin import ActedUpon, ActedUponAdmin, WrittenOnceAdmin
from dpp_project.refusals import Refusal
from ops.auth_errors import bulk, clusters, deciding, reads, rules
from ops.auth_errors.models import REASON_LENGTH_MAX, AuthError, Cluster, ClusterDecision, DecisionRule
from ops.auth_errors.reads import ClusterSummary
from ops.auth_errors.states import AuthErrorStatus, DecisionType

STATUS_COLORS: Final = {
    "NEW": "info",
    "RETRY": "warning",
    "ANALYSIS_REQUESTED": "info",
    "ANALYSIS_COMPLETED": "warning",
    "PROCESSED": "success",
    "RESOLVED": "success",
    "IGNORED": "success",
    "FAILED": "danger",
}
CLUSTER_COLORS: Final = {"OPEN": "warning", "RESOLVED": "success", "REGRESSED": "danger", "MERGED": "info"}
DECISIONS_SHOWN: Final = 20
_BARS: Final = "▁▂▃▄▅▆▇█"
_DECIDE: Final = ("resolve", "ignore", "retry", "fail", "process")


def trend_bars(counts: list[int]) -> str:
    """A trend in one line of text; a day without any is a dot."""
    most = max(counts, default=0)
    return "".join(_BARS[(count * len(_BARS) - 1) // most] if count else "·" for count in counts)


class DecisionReasonForm(forms.Form):
    reason = forms.CharField(
        max_length=REASON_LENGTH_MAX,
        required=False,
        widget=UnfoldAdminTextInputWidget,
        help_text="Why, for later readers. May be left out.",
    )


class MergeForm(forms.Form):
    into = forms.UUIDField(
        widget=UnfoldAdminTextInputWidget, help_text="The id of the cluster that this one shall count as."
    )


class DecidedAdmin(ActedUponAdmin):
    """A page with a button for each decision; each leads to a page that says what will happen."""

    actions_detail: tuple[str, ...] = _DECIDE

    class Media:
        css = {"all": ["dpp/console.css"]}

    def decide(self, request: HttpRequest, object_id: str, decision: DecisionType) -> HttpResponse:
        raise NotImplementedError

    @action(description="Resolve", icon="done", permissions=["manage"])  # type: ignore[untyped-decorator]
    def resolve(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self.decide(request, object_id, DecisionType.RESOLVE)

    @action(description="Ignore", icon="visibility_off", permissions=["manage"])  # type: ignore[untyped-decorator]
    def ignore(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self.decide(request, object_id, DecisionType.IGNORE)

    @action(description="Retry", icon="refresh", permissions=["manage"])  # type: ignore[untyped-decorator]
    def retry(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self.decide(request, object_id, DecisionType.RETRY)

    @action(description="Fail", icon="block", permissions=["manage"])  # type: ignore[untyped-decorator]
    def fail(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self.decide(request, object_id, DecisionType.FAIL)

    @action(description="Process", icon="inventory", permissions=["manage"])  # type: ignore[untyped-decorator]
    def process(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self.decide(request, object_id, DecisionType.PROCESS)


class ClusterList(ChangeList):  # type: ignore[misc]  # unfold has no types
    """Asks for the figures of a page's clusters together."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        found: list[Cluster] = list(self.result_list)  # type: ignore[has-type]
        for summary in reads.cluster_summaries(found, today=clock.now().date()):
            summary.cluster.summary = summary  # type: ignore[attr-defined]  # for the columns
        self.result_list = found


@admin.register(Cluster)
class ClusterAdmin(DecidedAdmin):
    empty_said = "No failed sign-in was reported yet; docs/auth_errors.md says how tenants do."
    list_display = ("fault", "label", "occurrences_shown", "trend", "tenants", "first_seen", "last_seen_at", "newest")
    list_filter = ("status",)
    search_fields = ("cluster_id__exact", "stack_hash__exact", "exception_class__exact")
    search_help_text = "An id, a stack hash or an exception class, each whole."
    ordering = ("-last_seen_at", "-cluster_id")
    sortable_by = ()
    list_per_page = 50
    fields = readonly_fields = (
        *("fault", "label", "occurrences_shown", "trend_days", "tenants", "first_seen", "last_seen_at", "resolved_at"),
        *("regressed_at", "newest", "trace", "merges", "stack_hash", "hash_version", "cluster_id", "made_decisions"),
    )
    actions_detail = (*_DECIDE, "merge", "unmerge")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Cluster]:
        """The list has those that count as no other; a merged one is found by its id."""
        match = request.resolver_match
        is_list = match is not None and str(match.url_name).endswith("_changelist")
        return reads.root_clusters() if is_list and not request.GET.get("q") else super().get_queryset(request)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        del request, kwargs
        return ClusterList

    def get_actions_detail(self, request: HttpRequest, object_id: str) -> list[Any]:
        """Those that would change something."""
        cluster_id = _uuid(object_id)
        is_merged = cluster_id is not None and clusters.merged_into(cluster_id) is not None
        may = {"unmerge": is_merged, **dict.fromkeys(("merge", *_DECIDE), not is_merged)}
        return [one for one in super().get_actions_detail(request, object_id) if may.get(one.path, True)]

    @admin.display(description="fault")
    def fault(self, cluster: Cluster) -> SafeString:
        return format_html("{}<br><small>{}</small>", cluster.exception_class, cluster.top_frame or "-")

    @display(description="status", label=CLUSTER_COLORS)  # type: ignore[untyped-decorator]
    def label(self, cluster: Cluster) -> str:
        if _summary(cluster).counts_as is not None:
            return "MERGED"
        return "REGRESSED" if cluster.regressed_at is not None else cluster.status

    @admin.display(description="errors")
    def occurrences_shown(self, cluster: Cluster) -> int:
        return _summary(cluster).occurrences

    @admin.display(description="14 days")
    def trend(self, cluster: Cluster) -> SafeString:
        counts = list(_summary(cluster).trend.values())
        return format_html('<code title="{}">{}</code>', ", ".join(map(str, counts)), trend_bars(counts))

    @admin.display(description="14 days (UTC)")
    def trend_days(self, cluster: Cluster) -> SafeString:
        days = _summary(cluster).trend
        rows = format_html_join("", "{} {}<br>", ((f"{day:%m-%d}", count) for day, count in days.items() if count))
        return format_html("<code>{}</code><br>{}", trend_bars(list(days.values())), rows)

    @admin.display(description="tenants")
    def tenants(self, cluster: Cluster) -> str:
        names = _summary(cluster).tenants
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "") or "-"

    @admin.display(description="first seen")
    def first_seen(self, cluster: Cluster) -> str:
        return f"{_summary(cluster).first_seen_at:%Y-%m-%d %H:%M:%S} UTC"

    @admin.display(description="newest error")
    def newest(self, cluster: Cluster) -> SafeString | str:
        newest = _summary(cluster).newest_error_id
        return "-" if newest is None else _link_to(AuthError, newest)

    @admin.display(description="newest trace")
    def trace(self, cluster: Cluster) -> SafeString | str:
        newest = _summary(cluster).newest_error_id
        error = None if newest is None else AuthError.objects.filter(pk=newest).first()
        return "-" if error is None else format_html("<pre>{}</pre>", error.stacktrace)

    @admin.display(description="merges")
    def merges(self, cluster: Cluster) -> SafeString:
        summary = _summary(cluster)
        into = "" if summary.counts_as is None else format_html("counts as {}", _link_to(Cluster, summary.counts_as))
        return format_html(
            "{}{}", into, format_html_join("", "with {}<br>", ((_link_to(Cluster, one),) for one in summary.merged))
        )

    @admin.display(description="decisions")
    def made_decisions(self, cluster: Cluster) -> SafeString:
        made = ClusterDecision.objects.filter(cluster=cluster)[:DECISIONS_SHOWN]
        return format_html_join(
            "",
            "{} {} by {}: {} errors{}. {}<br>",
            (
                (
                    *(f"{one.at:%Y-%m-%d %H:%M}", one.decision, one.by, one.decided),
                    *("" if one.finished_at else " so far", one.reason),
                )
                for one in made
            ),
        )

    def decide(self, request: HttpRequest, object_id: str, decision: DecisionType) -> HttpResponse:
        cluster: Cluster = self.found(request, object_id)
        return confirm.confirm_page(
            self,
            request,
            cluster,
            title=f"{decision.value.capitalize()} all open errors",
            text=f"{cluster.exception_class} at {cluster.top_frame or 'an unknown place'}: each of its errors that is"
            f" {AuthErrorStatus.ANALYSIS_COMPLETED} is decided {decision}; the first 500 at once."
            + (" It opens again when an error comes back." if decision is DecisionType.RESOLVE else ""),
            submit=decision.value.capitalize(),
            form_class=DecisionReasonForm,
            act=lambda form: self.done(
                request,
                cluster,
                bulk.decide_cluster(
                    cluster_id=cluster.pk,
                    decision=decision,
                    by=actors.person_actor(request.user),
                    reason=form.cleaned_data["reason"],
                ),
                f"Decided: {decision}.",
            ),
        )

    @action(description="Merge", icon="merge", permissions=["manage"])  # type: ignore[untyped-decorator]
    def merge(self, request: HttpRequest, object_id: str) -> HttpResponse:
        cluster: Cluster = self.found(request, object_id)
        return confirm.confirm_page(
            self,
            request,
            cluster,
            title="Merge",
            text="Its errors, those to come too, count as those of the other cluster until it is unmerged.",
            submit="Merge",
            form_class=MergeForm,
            act=lambda form: self.done(
                request,
                cluster,
                clusters.merge_clusters(
                    source_id=cluster.pk, into_id=form.cleaned_data["into"], by=actors.person_actor(request.user)
                ),
                "Merged.",
            ),
        )

    @action(description="Unmerge", icon="call_split", permissions=["manage"])  # type: ignore[untyped-decorator]
    def unmerge(self, request: HttpRequest, object_id: str) -> HttpResponse:
        cluster: Cluster = self.found(request, object_id)
        return confirm.confirm_page(
            self,
            request,
            cluster,
            title="Unmerge",
            text="It stands for itself again, with each error of its own.",
            submit="Unmerge",
            form_class=forms.Form,
            act=lambda _form: self.done(
                request,
                cluster,
                clusters.unmerge_cluster(cluster_id=cluster.pk, by=actors.person_actor(request.user)),
                "Unmerged.",
            ),
        )


@admin.register(AuthError)
class AuthErrorAdmin(DecidedAdmin):
    empty_said = "No failed sign-in was reported yet; docs/auth_errors.md says how tenants do."
    list_display = ("recorded_at", "exception_class", "label", "http_status", "tenant_id", "request_uri")
    list_filter = ("status",)
    search_fields = ("auth_error_id__exact", "dedup_key__exact", "tenant_id__exact", "exception_class__exact")
    search_help_text = "An id, a request id, a tenant or an exception class, each whole."
    ordering = ("-auth_error_id",)
    sortable_by = ()
    list_per_page = 50
    fields = readonly_fields = (
        *("label", "tenant_id", "in_cluster", "life", "exception_class", "exception_message", "root_cause_class"),
        *("root_cause_message", "trace", "http_status", "request_uri", "http_method", "occurred_at", "dedup_key"),
        *("auth_error_id", "client_ip", "user_agent", "session_hash", "user_id", "retry_count", "next_retry_at"),
    )

    @display(description="status", label=STATUS_COLORS)  # type: ignore[untyped-decorator]
    def label(self, error: AuthError) -> str:
        return error.status

    @admin.display(description="cluster")
    def in_cluster(self, error: AuthError) -> SafeString | str:
        return "-" if error.cluster_id is None else _link_to(Cluster, error.cluster_id)

    @admin.display(description="its life (UTC)")
    def life(self, error: AuthError) -> SafeString:
        rows = format_html_join(
            "",
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            (
                (f"{line.at:%Y-%m-%d %H:%M:%S.%f}"[:-3], line.what, line.detail, line.by)
                for line in reads.life_of(error)
            ),
        )
        return format_html('<div class="dpp-steps"><table><tbody>{}</tbody></table></div>', rows)

    @admin.display(description="stacktrace")
    def trace(self, error: AuthError) -> SafeString:
        note = "The end was cut; the frames were taken before." if error.truncated else ""
        return format_html("<pre>{}</pre>{}", error.stacktrace, note)

    def get_actions_detail(self, request: HttpRequest, object_id: str) -> list[Any]:
        error_id = _uuid(object_id)
        waits = (
            error_id is not None
            and AuthError.objects.filter(pk=error_id, status=AuthErrorStatus.ANALYSIS_COMPLETED).exists()
        )
        return [one for one in super().get_actions_detail(request, object_id) if waits or one.path not in _DECIDE]

    def decide(self, request: HttpRequest, object_id: str, decision: DecisionType) -> HttpResponse:
        error: AuthError = self.found(request, object_id)
        return confirm.confirm_page(
            self,
            request,
            error,
            title=decision.value.capitalize(),
            text=f"{error.exception_class} of {error.tenant_id}, alone: the others of its cluster stay as they are.",
            submit=decision.value.capitalize(),
            form_class=DecisionReasonForm,
            act=lambda form: self.done(
                request,
                error,
                deciding.decide_auth_error(
                    auth_error_id=error.pk,
                    decision=decision,
                    by=actors.person_actor(request.user),
                    reason=form.cleaned_data["reason"],
                ),
                f"Decided: {decision}.",
            ),
        )


class RuleForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable when it runs
    cluster = forms.UUIDField(
        required=False, widget=UnfoldAdminTextInputWidget, help_text="The id of a cluster; what is merged into it too."
    )

    class Meta:
        model = DecisionRule
        fields = ["name", "decision", "exception_class", "path_prefix"]
        widgets = dict.fromkeys(("name", "exception_class", "path_prefix"), UnfoldAdminTextInputWidget)
        help_texts = {
            "name": "Shown beside each error that it decides.",
            "exception_class": "Only errors with exactly this class.",
            "path_prefix": "Only requests whose path begins so, as in /api/.",
        }

    def asked(self) -> dict[str, Any]:
        found = self.cleaned_data
        return {
            "name": found["name"],
            "decision": DecisionType(found["decision"]),
            "cluster_id": found.get("cluster"),
            "exception_class": found.get("exception_class") or "",
            "path_prefix": found.get("path_prefix") or "",
        }

    def clean(self) -> dict[str, Any]:
        found: dict[str, Any] = super().clean() or {}
        if {"name", "decision"} <= found.keys():
            fault = rules.fault_of_decision_rule(**self.asked())
            if fault is not None:
                self.add_error(fault.field if fault.field in self.fields else None, fault.detail)
        return found


@admin.register(DecisionRule)
class DecisionRuleAdmin(ActedUpon, WrittenOnceAdmin):
    form = RuleForm
    list_display = ("name", "decision", "cluster_id", "exception_class", "path_prefix", "created_by", "ended_at")
    ordering = ("-pk",)
    readonly_fields = (
        *("name", "decision", "cluster_id", "exception_class", "path_prefix", "created_by", "created_at"),
        *("ended_by", "ended_at"),
    )
    actions_detail = ("end",)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return [*RuleForm.Meta.fields, "cluster"] if obj is None else self.readonly_fields

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return () if obj is None else self.readonly_fields

    def get_actions_detail(self, request: HttpRequest, object_id: str) -> list[Any]:
        is_active = object_id.isdecimal() and DecisionRule.objects.filter(pk=object_id, ended_at__isnull=True).exists()
        return [one for one in super().get_actions_detail(request, object_id) if is_active or one.path != "end"]

    def save_model(self, request: HttpRequest, obj: DecisionRule, form: Any, change: bool) -> None:  # noqa: FBT001  Django's
        added = rules.add_decision_rule(**form.asked(), by=actors.person_actor(request.user))
        if isinstance(added, Refusal):
            raise ValueError(added.detail)  # noqa: TRY004  no matter of types
        obj.pk = added.pk

    @action(description="End", icon="block", permissions=["manage"])  # type: ignore[untyped-decorator]
    def end(self, request: HttpRequest, object_id: str) -> HttpResponse:
        rule = self.found(request, object_id)
        return confirm.confirm_page(
            self,
            request,
            rule,
            title="End",
            text="It decides nothing more. What it decided stands.",
            submit="End",
            form_class=forms.Form,
            act=lambda _form: self.done(
                request, rule, rules.end_decision_rule(rule_id=rule.pk, by=actors.person_actor(request.user)), "Ended."
            ),
        )


def _summary(cluster: Cluster) -> ClusterSummary:
    """As the list has asked for it, or on a page of its own once."""
    found: ClusterSummary | None = getattr(cluster, "summary", None)
    if found is None:
        (found,) = reads.cluster_summaries([cluster], today=clock.now().date())
        cluster.summary = found  # type: ignore[attr-defined]
    return found


def _link_to(model: type[AuthError | Cluster], pk: uuid.UUID) -> SafeString:
    place = f"admin:auth_errors_{model._meta.model_name}_change"  # noqa: SLF001  Django's own name for it
    return format_html('<a href="{}">{}</a>', reverse(place, args=[pk]), pk)


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
