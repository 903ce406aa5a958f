"""The tenant's workspaces, by the selectors of /v1/workspaces."""

from typing import Final

from django.http import HttpRequest, HttpResponse

from dpp_project import clock
from dpp_project.http.cursors import Cursor
from ops.workspaces import explaining, selectors
from ops.workspaces.selectors import WantedWorkspaces
from tenants.account import menu
from tenants.account.menu import MenuItem
from tenants.account.page import AccountPage, cursor_of
from tenants.scopes import Scope

LINES: Final = 50
SEES: Final = frozenset({Scope.WORKSPACES_READ, Scope.WORKSPACES_WRITE})


class WorkspacesPage(AccountPage):
    required_scopes: Final = SEES

    def get(self, request: HttpRequest) -> HttpResponse:
        wanted = WantedWorkspaces(tenant_id=self.tenant_id)
        page = selectors.list_workspaces(wanted, after=cursor_of(request), limit=LINES)
        drivers = {driver.driver_id: driver for driver in selectors.list_drivers()}
        now = clock.now()
        context = {
            "lines": [
                {
                    "workspace": one,
                    "said": explaining.explain_workspace(one, drivers.get(one.driver_id or ""), now=now).said,
                }
                for one in page.workspaces
            ],
            "next": None if page.next is None else str(Cursor(*page.next)),
        }
        return self.show("account/workspaces/workspaces.html", context)


menu.add_page(MenuItem(70, "Workspaces", "account-workspaces", SEES))
