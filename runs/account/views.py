"""The tenant's runs, read through the selectors of `/v1/runs`."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from django.http import HttpRequest, HttpResponse

from budget import ledger
from budget.models import LedgerEntry
from dpp_project import clock
from dpp_project.http.path_ids import id_in_path
from dpp_project.http.problems import Problem
from dpp_project.reasons import REASONS, ReasonCode
from runs.api import documents
from runs.cancel import cancellation
from runs.cancel.cancellation import Canceled
from runs.models import Run, RunHistory
from runs.packs import registry
from runs.reads import for_tenant, life, listing
from runs.reads.listing import Filters
from runs.states import Stage, Status
from runs.submit.run_receipt import run_receipt_of
from tenants.account import menu
from tenants.account.menu import MenuItem, OverviewPart
from tenants.account.page import AccountPage, cursor_of
from tenants.principals import Principal
from tenants.scopes import Scope

LINES: Final = 50
LATEST: Final = 5
GONE: Final = "The run's retention is over: its result and its inputs are deleted. Its charge stands in the statement."


def latest_part(principal: Principal) -> Mapping[str, Any]:
    found = listing.list_runs(
        tenant_id=principal.tenant_id, filters=Filters(), after=None, limit=LATEST, now=clock.now()
    )
    return {"runs": [_account_page_run_row(run) for run in found.runs]}


class RunsPage(AccountPage):
    required_scopes: Final = Scope.RUNS_READ

    def get(self, request: HttpRequest) -> HttpResponse:
        asked = {name: request.GET.get(name, "") for name in ("status", "pack", "from", "to", "metadata")}
        page = listing.list_runs(
            tenant_id=self.tenant_id,
            filters=Filters(
                status=_account_run_status_filter(asked["status"]),
                pack_type=asked["pack"] or None,
                created_from=_day(asked["from"]),
                created_to=_after(_day(asked["to"])),
                metadata=_pair(asked["metadata"]),
            ),
            after=cursor_of(request),
            limit=LINES,
            now=clock.now(),
        )
        context = {
            "runs": [_account_page_run_row(run) for run in page.runs],
            "asked": asked,
            "filtered": any(asked.values()),
            "statuses": [one.value for one in Status],
            "packs": sorted(registry.packs_for_sale()),
            "next": None if page.next is None else str(page.next),
        }
        return self.show("account/runs/runs.html", context)


class RunOfAccountPage(AccountPage):
    """A run's life, its money to the micro, its result, and what was asked."""

    required_scopes: Final = {"GET": Scope.RUNS_READ, "POST": Scope.RUNS_WRITE}

    def get(self, _request: HttpRequest, run_id: str) -> HttpResponse:
        return self._page(_run_of(self, run_id))

    def post(self, _request: HttpRequest, run_id: str) -> HttpResponse:
        """The one thing that is done to a run: it is canceled."""
        run = _run_of(self, run_id)
        answer = cancellation.cancel_run(tenant_id=self.tenant_id, run_id=run.run_id, actor=self.actor)
        if answer is None:
            raise _no_run()
        if not isinstance(answer, Canceled):
            return self._page(_run_of(self, run_id), error="It cannot be canceled any more.", status=409)
        said = "The run is canceled." if answer.ended else "The run is being canceled."
        return self.done(said, "account-run", run.run_id)

    def _page(self, run: Run, *, error: str = "", status: int = 200) -> HttpResponse:
        if for_tenant.is_gone(run):
            return self.show("account/problem.html", {"title": "Gone", "problem": {"detail": GONE}}, status=410)
        steps = list(RunHistory.objects.filter(run_id=run.run_id).order_by("version"))
        context = {
            "run": run,
            "document": documents.run_document(run, balance_micros=None),
            "receipt": run_receipt_of(run),
            "life": life.life_of(run, steps, now=clock.now()),
            "steps": steps,
            "entries": _entries(self, run),
            "returned_micros": _returned(run),
            "reason": _reason(run),
            "may_cancel": run.finalize_stage is None and self.may(Scope.RUNS_WRITE),
            "is_queued": run.status == Status.QUEUED,
            "has_ended": run.finalize_stage == Stage.COMMITTED,
            "error": error,
        }
        return self.show("account/runs/run.html", context, status=status)


def _run_of(page: AccountPage, text: str) -> Run:
    """Another tenant's, an unknown and a malformed id: the same page."""
    run = for_tenant.run_of_tenant_with_inputs(page.tenant_id, id_in_path(text))
    if run is None:
        raise _no_run()
    return run


def _no_run() -> Problem:
    return Problem(ReasonCode.NOT_FOUND, "There is no such run.")


def _account_page_run_row(run: Run) -> dict[str, Any]:
    return {"run": run, "status": Status.EXPIRED.value if for_tenant.is_gone(run) else run.status}


def _entries(page: AccountPage, run: Run) -> list[LedgerEntry]:
    """What the ledger has of it, for a key that may read money."""
    if not page.may(Scope.BUDGET_READ):
        return []
    return ledger.entries_of_run(page.tenant_id, run.run_id)


def _returned(run: Run) -> int | None:
    charged = run.actual_cost_usd_micros
    return None if charged is None else run.reservation_max_cost_usd_micros - charged


def _reason(run: Run) -> dict[str, str] | None:
    if run.last_error_reason_code is None or run.status != Status.FAILED:
        return None
    reason = REASONS[ReasonCode(run.last_error_reason_code)]
    return {"title": reason.title, "detail": run.last_error_detail or reason.cause, "cure": reason.cure}


def _account_run_status_filter(text: str) -> Status | None:
    try:
        return Status(text) if text else None
    except ValueError:
        raise Problem(ReasonCode.VALIDATION_FAILED, f"status: choose one of {', '.join(Status)}.") from None


def _day(text: str) -> datetime | None:
    """Midnight in UTC."""
    try:
        day = date.fromisoformat(text) if text else None
    except ValueError:
        raise Problem(ReasonCode.VALIDATION_FAILED, "Give a date as 2026-11-19.") from None
    return None if day is None else datetime(day.year, day.month, day.day, tzinfo=UTC)


def _pair(text: str) -> dict[str, str]:
    """`order=42`, as the run was submitted with it."""
    key, found, value = text.partition("=")
    if text and not (key and found and value):
        raise Problem(ReasonCode.VALIDATION_FAILED, "Give metadata as key=value.")
    return {key: value} if text else {}


def _after(day: datetime | None) -> datetime | None:
    """The last day counts whole."""
    try:
        return None if day is None else day + timedelta(days=1)
    except OverflowError:
        return None


menu.add_part(OverviewPart(10, "account/runs/latest_part.html", Scope.RUNS_READ, latest_part))
menu.add_page(MenuItem(10, "Runs", "account-runs", Scope.RUNS_READ))
