"""Workspaces in the console: rows to read, a board, and acts that go through the services.

Values of a tenant's environment are on no page.
"""

import json
from typing import Any, Final

from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from unfold.decorators import action, display
from unfold.enums import ActionVariant
from unfold.widgets import UnfoldAdminSelectWidget

from dpp_project import actors, clock
from dpp_project.console import confirm
from dpp_project.console.row_admin import ActedUponAdmin, ReadOnlyInline
from ops.workspaces import board, explaining, services
from ops.workspaces.models import Workspace, WorkspaceArchive, WorkspaceDriver, WorkspaceEvent, WorkspaceVolume
from ops.workspaces.states import ArchiveState, DesiredState, VolumeState

COLORS: Final = {
    "RUNNING": "success",
    "STANDBY": "info",
    "ARCHIVED": "info",
    "PENDING": "warning",
    "ERROR": "danger",
    "DELETED": "danger",
    "VERIFIED": "success",
    "QUARANTINED": "danger",
    "LIVE": "success",
    "FROZEN": "danger",
    "AT WORK": "success",
}
ROWS_SHOWN: Final = 20


class DeletionForm(forms.Form):
    discard = forms.BooleanField(
        label="Give up what is not archived", required=False, help_text="For a workspace in ERROR, and for no other."
    )


class RecoveryForm(forms.Form):
    source = forms.ChoiceField(label="From", widget=UnfoldAdminSelectWidget)

    def __init__(self, *args: Any, workspace: Workspace, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        kept = workspace.archives.exclude(state=ArchiveState.DELETED).order_by("-created_at")[:ROWS_SHOWN]
        field: Any = self.fields["source"]
        field.choices = [
            (services.RECHECK, "Look at everything anew, and go on if it is whole"),
            *(
                (f"{services.FROM_ARCHIVE}{one.pk}", f"Archive of {one.created_at:%Y-%m-%d %H:%M}, {one.state}")
                for one in kept
            ),
            (services.EMPTY, "An empty home: what is not archived is given up"),
        ]


class _Rows(ReadOnlyInline):
    tab = True
    per_page = ROWS_SHOWN


class TimelineRows(_Rows):
    model = WorkspaceEvent
    fields = readonly_fields = ("at", "kind", "actor", "detail")
    ordering = ("-id",)
    verbose_name_plural = "Timeline"


class ArchiveRows(_Rows):
    model = WorkspaceArchive
    fields = readonly_fields = ("archive_key", "state", "object_bytes", "verified_at", "superseded_at", "pinned_by")
    ordering = ("-created_at",)
    verbose_name_plural = "Archives"


class VolumeRows(_Rows):
    model = WorkspaceVolume
    fields = readonly_fields = ("volume_name", "state", "epoch", "filled_from", "used_bytes", "changed_at")
    ordering = ("-epoch",)
    verbose_name_plural = "Volumes"


@admin.register(Workspace)
class WorkspaceAdmin(ActedUponAdmin):
    empty_said = "Tenants make workspaces: POST /v1/workspaces. A host must be there first, under Workspace drivers."
    list_display = ("name", "label", "desired_state", "operation", "tenant", "workspace_id", "observed_at")
    list_filter = ("phase", "operation", "driver_id")
    search_fields = ("workspace_id", "tenant__tenant_id", "name")
    list_select_related = ("tenant",)
    fields = readonly_fields = (
        *("workspace_id", "tenant", "name", "label", "desired_state", "waits_for", "generation", "created_at"),
        *("standby_ttl_seconds", "archive_ttl_seconds", "delete_requested_at", "runs", "conditions"),
        *("observed_at", "observed_rev", "rev", "driver_id", "operation", "op_id", "op_step", "op_attempt"),
        *("op_started_at", "op_lease_until", "op_progress_bytes", "archive_key", "home_ctx", "error_count"),
        *("error_info", "next_reconcile_at", "recover_from", "deleted_at", "purged_at"),
    )
    inlines = (TimelineRows, ArchiveRows, VolumeRows)
    actions_list = ("board",)
    actions_detail = ("start", "standby", "archive", "ask_deletion", "undelete", "recover")

    @display(description="phase", ordering="phase", label=COLORS)  # type: ignore[untyped-decorator]
    def label(self, workspace: Workspace) -> str:
        return workspace.phase

    @display(description="waits for")  # type: ignore[untyped-decorator]
    def waits_for(self, workspace: Workspace) -> str:
        driver = WorkspaceDriver.objects.filter(pk=workspace.driver_id).first()
        step = explaining.explain_workspace(workspace, driver, now=clock.now())
        at = "" if step.at is None else f", {step.at:%Y-%m-%d %H:%M:%S} UTC"
        who = "its owner, or an operator" if step.next_actor is explaining.Actor.YOU else step.next_actor
        return f"{step.said} (next: {who}{at})"

    @display(description="runs")  # type: ignore[untyped-decorator]
    def runs(self, workspace: Workspace) -> str:
        return json.dumps(workspace.spec | {"env": sorted(workspace.spec.get("env") or {})}, ensure_ascii=False)

    @action(description="Board", icon="view_kanban")  # type: ignore[untyped-decorator]
    def board(self, request: HttpRequest) -> HttpResponse:
        columns = board.board_columns(now=clock.now())
        context = self.admin_site.each_context(request) | {
            "title": "Workspaces by phase",
            "opts": self.opts,
            "columns": columns,
            "is_empty": not any(column.count for column in columns),
            "list_url": reverse("admin:workspaces_workspace_changelist"),
        }
        return TemplateResponse(request, "admin/workspaces_board.html", context)

    @action(description="Start", icon="play_arrow", permissions=["manage"])  # type: ignore[untyped-decorator]
    def start(self, request: HttpRequest, object_id: str) -> HttpResponse:
        text = "It is brought up step by step: restored if it is archived, and started."
        return self._asked(request, object_id, DesiredState.RUNNING, title="Start it", text=text)

    @action(description="Standby", icon="pause", permissions=["manage"])  # type: ignore[untyped-decorator]
    def standby(self, request: HttpRequest, object_id: str) -> HttpResponse:
        text = "What runs in it is stopped; its home stays. One that is archived is restored."
        return self._asked(request, object_id, DesiredState.STANDBY, title="Rest it in STANDBY", text=text)

    @action(description="Archive", icon="inventory_2", permissions=["manage"])  # type: ignore[untyped-decorator]
    def archive(self, request: HttpRequest, object_id: str) -> HttpResponse:
        text = "What runs in it is stopped, its home goes into an archive that is read back, and its volume goes."
        return self._asked(request, object_id, DesiredState.ARCHIVED, title="Archive it", text=text)

    @action(description="Delete", icon="delete", variant=ActionVariant.DANGER, permissions=["manage"])  # type: ignore[untyped-decorator]
    def ask_deletion(self, request: HttpRequest, object_id: str) -> HttpResponse:
        workspace = self.found(request, object_id)

        def act(form: DeletionForm) -> HttpResponse:
            answer = services.delete_workspace(
                workspace_id=workspace.pk, actor=actors.person_actor(request.user), discard=form.cleaned_data["discard"]
            )
            return self.done(request, workspace, answer, "Its deletion is asked for.")

        text = "It steps down and is archived; for seven days it can be undeleted. Out of ERROR nothing is archived."
        return confirm.confirm_page(
            self, request, workspace, title="Delete it", text=text, submit="Delete", form_class=DeletionForm, act=act
        )

    @action(description="Undelete", icon="restore_from_trash", permissions=["manage"])  # type: ignore[untyped-decorator]
    def undelete(self, request: HttpRequest, object_id: str) -> HttpResponse:
        workspace = self.found(request, object_id)

        def act(_form: forms.Form) -> HttpResponse:
            answer = services.undelete_workspace(workspace_id=workspace.pk, actor=actors.person_actor(request.user))
            return self.done(request, workspace, answer, "It comes back, and rests in STANDBY.")

        text = "It comes back from its archive, or as it stands where it is not archived yet."
        return confirm.plain_page(self, request, workspace, title="Undelete it", text=text, act=act)

    @action(description="Recover", icon="healing", permissions=["manage"])  # type: ignore[untyped-decorator]
    def recover(self, request: HttpRequest, object_id: str) -> HttpResponse:
        workspace = self.found(request, object_id)

        class ThisForm(RecoveryForm):
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, workspace=workspace, **kwargs)

        def act(form: RecoveryForm) -> HttpResponse:
            answer = services.recover_workspace(
                workspace_id=workspace.pk, actor=actors.person_actor(request.user), source=form.cleaned_data["source"]
            )
            return self.done(request, workspace, answer, "Its recovery is asked for.")

        text = "For a workspace in ERROR, once you have seen why. An archive is read back whole before it counts."
        return confirm.confirm_page(
            self, request, workspace, title="Recover it", text=text, submit="Recover", form_class=ThisForm, act=act
        )

    def _asked(
        self, request: HttpRequest, object_id: str, state: DesiredState, *, title: str, text: str
    ) -> HttpResponse:
        workspace = self.found(request, object_id)

        def act(_form: forms.Form) -> HttpResponse:
            answer = services.change_workspace(
                workspace_id=workspace.pk,
                actor=actors.person_actor(request.user),
                wanted={"desired_state": state.value},
            )
            return self.done(request, workspace, answer, f"{state} is asked for.")

        return confirm.plain_page(self, request, workspace, title=title, text=text, act=act)


@admin.register(WorkspaceDriver)
class WorkspaceDriverAdmin(ActedUponAdmin):
    empty_said = "A host is here from the first start of its process `workspaces` on; docs/workspaces_operating.md."
    list_display = ("driver_id", "kind", "label", "holds", "listed_at", "created_at")
    fields = readonly_fields = (
        *("driver_id", "kind", "label", "holds", "listed_at", "frozen_at", "frozen_reason"),
        *("sentinel_placed_at", "created_at"),
    )
    actions_detail = ("release",)

    @display(description="state", label=COLORS)  # type: ignore[untyped-decorator]
    def label(self, driver: WorkspaceDriver) -> str:
        return "AT WORK" if driver.frozen_at is None else "FROZEN"

    @display(description="volumes")  # type: ignore[untyped-decorator]
    def holds(self, driver: WorkspaceDriver) -> int:
        return WorkspaceVolume.objects.filter(driver_id=driver.driver_id).exclude(state=VolumeState.GONE).count()

    @action(description="Release", icon="lock_open", variant=ActionVariant.DANGER, permissions=["manage"])  # type: ignore[untyped-decorator]
    def release(self, request: HttpRequest, object_id: str) -> HttpResponse:
        driver = self.found(request, object_id)

        def act(_form: forms.Form) -> HttpResponse:
            answer = services.release_driver(driver_id=driver.driver_id, actor=actors.person_actor(request.user))
            return self.done(request, driver, answer, "Released: its workspaces are acted on again.")

        text = (
            "It was frozen because much vanished at once. Volumes that are still missing are lost to their workspaces"
            " from then on, which go into ERROR. Find the disk first."
        )
        return confirm.plain_page(self, request, driver, title="Release it", text=text, act=act)
