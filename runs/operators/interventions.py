"""What an operator may do to runs: end open ones, have their message sent again, delete the data of ended ones. One at
a time on a run's own page, or the first two for several from the list; each asks first, and says of each run that it
left alone why.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from unfold.decorators import action
from unfold.enums import ActionVariant

from dpp_project import actors
from dpp_project.console import confirm
from dpp_project.reasons import ReasonCode
from runs.cancel import cancellation
from runs.cancel.cancellation import Canceled
from runs.finish import data_deletion
from runs.finish.data_deletion import DataDeleted, NotEnded
from runs.models import Run
from runs.operators import resend
from runs.states import MoneyState, Stage, Status

SELECTED_MAX: Final = 100
REFUSALS_TOLD: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervention:
    """`act` takes a run and who asks, and answers why it was left alone, or None."""

    title: str
    text: str
    submit: str
    done: str
    not_done: str
    act: Callable[[Run, str], str | None]


def _cancel_by_intervention(run: Run, actor: str) -> str | None:
    answer = cancellation.cancel_run(
        tenant_id=run.tenant_id, run_id=run.run_id, actor=actor, reason=ReasonCode.CANCELED_BY_OPERATOR
    )
    if isinstance(answer, Canceled):
        return None
    if answer is None:
        return "its money is not held yet; the hold auditor ends it if nobody else does"
    state = " ".join(part for part in (answer.run.status, answer.run.money_state, answer.run.finalize_stage) if part)
    return f"it is {state}"


CANCEL: Final = Intervention(
    title="End",
    text=(
        "A run that is queued ends for nothing. One at work is stopped and costs its minimum fee, as if its owner had"
        " canceled it. This cannot be taken back."
    ),
    submit="End it",
    done="Ended",
    not_done="Not ended",
    act=_cancel_by_intervention,
)
REQUEUE: Final = Intervention(
    title="Send the message again",
    text=(
        "Workers are told once more. A run starts only if it still waits, so a message too many does nothing; the"
        " requeuer does the same by itself when a message is late."
    ),
    submit="Send it",
    done="Sent again",
    not_done="Not sent",
    act=lambda run, actor: resend.send_again(run_id=run.run_id, actor=actor),
)


def _delete_data(run: Run, actor: str) -> str | None:
    answer = data_deletion.delete_run_data(tenant_id=run.tenant_id, run_id=run.run_id, actor=actor)
    if isinstance(answer, DataDeleted):
        return None
    return "it has not ended" if isinstance(answer, NotEnded) else "there is no such run"


DELETE_DATA: Final = Intervention(
    title="Delete its data",
    text=(
        "Inputs, result, files and metadata are deleted, and its owner is answered 410 from now on. What it cost stays,"
        " in the run and in the ledger. This cannot be taken back."
    ),
    submit="Delete",
    done="Data deleted",
    not_done="Not deleted",
    act=_delete_data,
)


def interventions_for(run: Run) -> set[str]:
    """Those that its state allows."""
    if run.finalize_stage == Stage.COMMITTED:
        return set() if run.status == Status.EXPIRED else {"delete_data"}
    if run.money_state != MoneyState.RESERVED or run.finalize_stage is not None:
        return set()
    return {"cancel", "requeue"} if run.status == Status.QUEUED else {"cancel"}


class Interventions:
    """For the console's page of runs, beside Unfold's ModelAdmin."""

    message_user: Any
    log_change: Any
    get_object: Any

    @action(description="End", icon="cancel", variant=ActionVariant.DANGER, permissions=["manage"])  # type: ignore[untyped-decorator]
    def cancel(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._one(request, object_id, CANCEL)

    @action(description="Send again", icon="redo", permissions=["manage"])  # type: ignore[untyped-decorator]
    def requeue(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._one(request, object_id, REQUEUE)

    @action(description="Delete data", icon="delete", variant=ActionVariant.DANGER, permissions=["manage"])  # type: ignore[untyped-decorator]
    def delete_data(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._one(request, object_id, DELETE_DATA)

    @action(description="End the selected runs", permissions=["manage"])  # type: ignore[untyped-decorator]
    def cancel_selected(self, request: HttpRequest, runs: QuerySet[Run]) -> HttpResponse | None:
        return self._several(request, runs, CANCEL)

    @action(description="Send the messages of the selected runs again", permissions=["manage"])  # type: ignore[untyped-decorator]
    def requeue_selected(self, request: HttpRequest, runs: QuerySet[Run]) -> HttpResponse | None:
        return self._several(request, runs, REQUEUE)

    def _one(self, request: HttpRequest, object_id: str, intervention: Intervention) -> HttpResponse:
        run: Run | None = self.get_object(request, object_id)
        if run is None:
            raise Http404

        def act(_form: forms.Form) -> HttpResponse:
            self._carry_out(request, [run], intervention)
            return HttpResponseRedirect(reverse("admin:runs_run_change", args=[run.pk]))

        model_admin: Any = self
        return confirm.confirm_page(
            model_admin,
            request,
            run,
            title=intervention.title,
            text=intervention.text,
            submit=intervention.submit,
            form_class=forms.Form,
            act=act,
        )

    def _several(self, request: HttpRequest, runs: QuerySet[Run], intervention: Intervention) -> HttpResponse | None:
        chosen = list(runs[: SELECTED_MAX + 1])
        if len(chosen) > SELECTED_MAX:
            self.message_user(
                request, f"Nothing was changed: select {SELECTED_MAX} runs at most at a time.", messages.ERROR
            )
            return None
        model_admin: Any = self
        return confirm.page_for_selected(
            model_admin,
            request,
            chosen,
            title=intervention.title,
            text=intervention.text,
            submit=intervention.submit,
            act=lambda: self._carry_out(request, chosen, intervention),
        )

    def _carry_out(self, request: HttpRequest, runs: Sequence[Run], intervention: Intervention) -> None:
        user: Any = request.user
        actor, refused = actors.person_actor(user), []
        for run in runs:
            why = intervention.act(run, actor)
            if why is None:
                self.log_change(request, run, f"{intervention.done}.")
            else:
                refused.append(f"{intervention.not_done}: {run.run_id}, {why}.")
        if done := len(runs) - len(refused):
            self.message_user(request, f"{intervention.done}: {done} run{'s' if done > 1 else ''}.", messages.SUCCESS)
        for said in refused[:REFUSALS_TOLD]:
            self.message_user(request, said, messages.ERROR)
        if rest := len(refused[REFUSALS_TOLD:]):
            self.message_user(request, f"{intervention.not_done}: {rest} more.", messages.ERROR)
