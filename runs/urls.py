"""Addresses of this app, under /v1/."""

from django.urls import path

from runs.api.concurrency import ConcurrencyView
from runs.api.estimate import EstimateView
from runs.api.events import RunEventsView
from runs.api.packs import PacksView
from runs.api.uploads import UploadsView
from runs.api.views import ArtifactView, CancelView, RunDataView, RunsView, RunView

urlpatterns = [
    path("runs", RunsView.as_view(), name="runs"),
    path("runs/estimate", EstimateView.as_view(), name="estimate"),
    path("runs/<str:run_id>", RunView.as_view(), name="run"),
    path("runs/<str:run_id>/events", RunEventsView.as_view(), name="run-events"),
    path("runs/<str:run_id>/cancel", CancelView.as_view(), name="run-cancel"),
    path("runs/<str:run_id>/data", RunDataView.as_view(), name="run-data"),
    path("runs/<str:run_id>/artifacts/<str:name>", ArtifactView.as_view(), name="run-artifact"),
    path("uploads", UploadsView.as_view(), name="uploads"),
    path("concurrency/<str:key>", ConcurrencyView.as_view(), name="concurrency"),
    path("packs", PacksView.as_view(), name="packs"),
]
