"""Balance, statement and usage."""

from collections.abc import Mapping
from typing import Any, Final

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

from budget import caps_page, statements
from budget.account import months, pictures
from budget.api import csv_answer
from budget.caps import reading as cap_reading
from budget.models import LedgerEntry
from budget.outcomes import Unavailable
from budget.usage import csv_rows, focus_rows, overview, reading
from budget.usage.ranges import UsagePeriod
from dpp_project.http.cursors import Cursor
from dpp_project.http.problems import Problem
from dpp_project.http.streams import Stream
from dpp_project.reasons import ReasonCode
from tenants.account import menu
from tenants.account.menu import MenuItem, OverviewPart
from tenants.account.page import AccountPage, cursor_of
from tenants.principals import Principal
from tenants.scopes import Scope

LINES: Final = 50


def money_part(principal: Principal) -> Mapping[str, Any]:
    """Balance and caps as of one moment; while they are rebuilt nobody can say."""
    stand = cap_reading.caps_standing(principal.tenant_id, [principal.lineage_id])
    seen = statements.money_overview(principal.tenant_id, capped=stand)
    if isinstance(seen, Unavailable):
        return {"seen": None}
    own = None if principal.lineage_id is None else str(principal.lineage_id)
    bars = [
        (whose, [caps_page.CapBar(one) for one in found])
        for whose, found in (("All keys", seen.caps.get(None, ())), ("This key", seen.caps.get(own, ()) if own else ()))
        if found
    ]
    return {"seen": seen, "bars": bars, "low_micros": stand.low_micros}


class StatementPage(AccountPage):
    required_scopes: Final = Scope.BUDGET_READ

    def get(self, request: HttpRequest) -> HttpResponse:
        month = months.asked_month(request, self.tenant_id)
        kind = request.GET.get("kind") or None
        if kind is not None and kind not in LedgerEntry.Kind.values:
            raise Problem(ReasonCode.VALIDATION_FAILED, f"Choose one of {', '.join(LedgerEntry.Kind.values)}.")
        page = statements.statement_page(
            self.tenant_id, month.period(), kind=kind, after=cursor_of(request), limit=LINES
        )
        context = {
            "page": page,
            "month": month,
            "kind": kind,
            "kinds": LedgerEntry.Kind.values,
            "next": None if page.next is None else str(Cursor(*page.next)),
        }
        return self.show("account/budget/statement.html", context)


class StatementFile(AccountPage):
    """The month whole, as `GET /v1/budget/entries` answers it as CSV."""

    required_scopes: Final = Scope.BUDGET_READ

    def get(self, request: HttpRequest) -> StreamingHttpResponse:
        month = months.asked_month(request, self.tenant_id)
        return csv_file(
            self.tenant_id, f"statement-{month.text}", csv_answer.statement_csv_rows(self.tenant_id, month.period())
        )


class UsagePage(AccountPage):
    required_scopes: Final = Scope.BUDGET_READ

    def get(self, request: HttpRequest) -> HttpResponse:
        month = months.asked_month(request, self.tenant_id)
        found = overview.usage_overview(self.tenant_id, month=month.asked.start, own=reading.alone_seen(self.principal))
        assert found is not None  # noqa: S101  a session has a tenant
        bars = pictures.day_bars(found.days)
        context = {
            "month": month,
            "usage": found,
            "bars": bars,
            "height": pictures.HEIGHT,
            "width": len(bars) * pictures.STEP,
            "bar_width": pictures.WIDTH,
            "tables": [(name, rows) for name, rows in (("Pack", found.packs), ("Key", found.keys)) if rows],
        }
        return self.show("account/budget/usage.html", context)


class UsageFile(AccountPage):
    required_scopes: Final = Scope.BUDGET_READ

    def get(self, request: HttpRequest) -> StreamingHttpResponse:
        month = months.asked_month(request, self.tenant_id)
        own = reading.alone_seen(self.principal)
        if request.GET.get("form") == "focus":
            return csv_file(
                self.tenant_id,
                f"focus-{month.text}",
                focus_rows.usage_focus_rows(month.asked, UsagePeriod.DAY, own=own),
            )
        return csv_file(
            self.tenant_id,
            f"usage-{month.text}",
            csv_rows.usage_csv_rows(month.asked, UsagePeriod.DAY, reading.UsageGroup.PACK, own=own),
        )


def csv_file(tenant_id: str, name: str, lines: Any) -> StreamingHttpResponse:
    return StreamingHttpResponse(
        Stream(tenant_id, lines),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{tenant_id}-{name}.csv"'},
    )


menu.add_part(OverviewPart(0, "account/budget/overview_part.html", Scope.BUDGET_READ, money_part))
menu.add_page(MenuItem(20, "Statement", "account-statement", Scope.BUDGET_READ))
menu.add_page(MenuItem(30, "Usage", "account-usage", Scope.BUDGET_READ))
