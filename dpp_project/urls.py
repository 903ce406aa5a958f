"""Every address of the product."""

from django.contrib import admin
from django.urls import include, path
from django.views.decorators.csrf import csrf_exempt
from django.views.generic import RedirectView

from dpp_project import health, pages
from dpp_project.signin import views as signin

handler400 = "dpp_project.http.handlers.bad_request"
handler403 = "dpp_project.http.handlers.permission_denied"
handler404 = "dpp_project.http.handlers.not_found"
handler500 = "dpp_project.http.handlers.server_error"

# Judging a form reads it, files and all: Django does so under /admin/ alone.
urlpatterns = [
    path("v1/", include("runs.urls")),  # first, as the most asked for
    path("healthz", csrf_exempt(health.healthz), name="healthz"),
    path("readyz", csrf_exempt(health.readyz), name="readyz"),
    path("metrics", csrf_exempt(pages.metrics_page), name="metrics"),
    path("v1/openapi.json", csrf_exempt(pages.openapi_page), name="openapi"),
    path("v1/", include("tenants.urls")),
    path("v1/", include("tenants.webhooks.urls")),
    path("v1/", include("budget.urls")),
    path("api/", include("ops.tickets.urls")),
    path("api/", include("ops.auth_errors.urls")),
    path("docs/", csrf_exempt(pages.docs_page), name="docs"),
    path("docs/problems/", csrf_exempt(pages.problems_page), name="problem-list"),
    path("admin", csrf_exempt(RedirectView.as_view(pattern_name="admin:index"))),
    path("admin/login/", signin.login),
    path("admin/password_change/", admin.site.admin_view(signin.password_change)),
    path("admin/second-factor/", admin.site.admin_view(signin.second_factor), name="second-factor"),
    path("admin/", admin.site.urls),
    path("", csrf_exempt(RedirectView.as_view(pattern_name="docs"))),
]
