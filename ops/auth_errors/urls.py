from django.urls import path

from ops.auth_errors.api import views

urlpatterns = [
    path("auth-errors", views.AuthErrorsView.as_view(), name="auth-errors"),
    path("auth-errors/clusters", views.ClustersView.as_view(), name="auth-error-clusters"),
    path("auth-errors/clusters/<str:cluster_id>", views.ClusterView.as_view(), name="auth-error-cluster"),
    path(
        "auth-errors/clusters/<str:cluster_id>/decisions",
        views.ClusterDecisionsView.as_view(),
        name="auth-error-cluster-decisions",
    ),
    path("auth-errors/clusters/<str:cluster_id>/merge", views.MergeView.as_view(), name="auth-error-cluster-merge"),
    path(
        "auth-errors/clusters/<str:cluster_id>/unmerge", views.UnmergeView.as_view(), name="auth-error-cluster-unmerge"
    ),
    path("auth-errors/<str:auth_error_id>", views.AuthErrorView.as_view(), name="auth-error"),
    path("auth-errors/<str:auth_error_id>/decisions", views.DecisionsView.as_view(), name="auth-error-decisions"),
]
