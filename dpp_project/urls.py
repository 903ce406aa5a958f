"""Every address of the product."""

from django.contrib import admin
from django.urls import include, path
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.generic import RedirectView

from dpp_project.console.dashboard import live_panels
from dpp_project.documentation import views as documentation
from dpp_project.pages import health, metrics_page, openapi
from dpp_project.signin import views as signin
from runs.mcp.views import McpView

handler400 = "dpp_project.http.handlers.bad_request"
handler403 = "dpp_project.http.handlers.permission_denied"
handler404 = "dpp_project.http.handlers.answer_not_found"
handler500 = "dpp_project.http.handlers.server_error"

# Judging a form reads it, files and all: Django does so under /admin/ and /account/ alone.
urlpatterns = [
    path("v1/", include("runs.urls")),  # first, as the most asked for
    path("healthz", csrf_exempt(health.healthz), name="healthz"),
    path("readyz", csrf_exempt(health.readyz), name="readyz"),
    path("metrics", csrf_exempt(metrics_page.metrics_page), name="metrics"),
    path("v1/openapi.json", csrf_exempt(openapi.openapi_page), name="openapi"),
    path("v1/", include("tenants.urls")),
    path("v1/", include("tenants.webhooks.urls")),
    path("v1/", include("budget.urls")),
    path("v1/", include("ops.workspaces.urls")),
    path("mcp", McpView.as_view(), name="mcp"),
    path("api/", include("ops.tickets.urls")),
    path("api/", include("ops.auth_errors.urls")),
    path("api/", include("ops.automations.urls")),
    path("account", csrf_exempt(RedirectView.as_view(pattern_name="account-overview"))),
    path("account/", include("tenants.account.urls")),
    path("account/webhooks/", include("tenants.webhooks.account.urls")),
    path("account/", include("budget.account.urls")),
    path("account/runs/", include("runs.account.urls")),
    path("account/workspaces/", include("ops.workspaces.account.urls")),
    path("docs", csrf_exempt(RedirectView.as_view(pattern_name="docs"))),
    path("docs/", csrf_exempt(documentation.start_page), name="docs"),
    path("docs/reference/", csrf_exempt(documentation.reference_page), name="docs-reference"),
    path("docs/problems/", csrf_exempt(documentation.problems_page), name="problem-list"),
    path("docs/search.json", csrf_exempt(documentation.search_index), name="docs-search"),
    path("docs/adr/", csrf_exempt(documentation.decisions_page), name="docs-decisions"),
    path("docs/<path:name>/", csrf_exempt(documentation.show_documentation_page), name="docs-page"),
    path("docs/<path:name>", csrf_exempt(documentation.page_by_its_file)),
    path("admin", csrf_exempt(RedirectView.as_view(pattern_name="admin:index"))),
    path("admin/login/", signin.login),
    path("admin/password_change/", admin.site.admin_view(signin.password_change)),
    path("admin/second-factor/", admin.site.admin_view(signin.second_factor), name="second-factor"),
    path("admin/live/", never_cache(admin.site.admin_view(live_panels)), name="console-live"),
    path("admin/", admin.site.urls),
    path("", csrf_exempt(RedirectView.as_view(pattern_name="docs"))),
]
