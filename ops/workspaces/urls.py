"""Addresses of workspaces, under /v1/workspaces."""

from django.urls import path

from ops.workspaces.api import inside, opening, views

urlpatterns = [
    path("workspaces", views.WorkspacesView.as_view(), name="workspaces"),
    path("workspaces/<str:workspace_id>", views.WorkspaceView.as_view(), name="workspace"),
    path("workspaces/<str:workspace_id>/undelete", views.UndeleteView.as_view(), name="workspace-undelete"),
    path("workspaces/<str:workspace_id>/recover", views.WorkspaceRecoverView.as_view(), name="workspace-recover"),
    path("workspaces/<str:workspace_id>/archives", views.ArchivesView.as_view(), name="workspace-archives"),
    path("workspaces/<str:workspace_id>/exec", inside.ExecView.as_view(), name="workspace-exec"),
    path("workspaces/<str:workspace_id>/logs", inside.LogsView.as_view(), name="workspace-logs"),
    path("workspaces/<str:workspace_id>/links", opening.LinksView.as_view(), name="workspace-links"),
    path("workspaces/<str:workspace_id>/events", views.TimelineView.as_view(), name="workspace-events"),
]
