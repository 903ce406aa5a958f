"""/api/automations/sources. Views validate and translate; what happens stands in sources/acts.py."""

from typing import Final

from drf_spectacular.utils import extend_schema
from pydantic import SecretStr
from rest_framework.request import Request
from rest_framework.response import Response

from dpp_project.http import problems
from dpp_project.http.bodies import read_body
from dpp_project.http.handlers import NOT_FOUND_DETAIL
from dpp_project.http.openapi import openapi_refusals
from dpp_project.http.problems import Problem
from dpp_project.http.views import ApiView
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from ops.automations.api import source_examples as examples
from ops.automations.api.source_documents import (
    NewSource,
    SourceAnswer,
    SourceChange,
    SourceRotation,
    Sources,
    SourceWithSecret,
)
from ops.automations.api.views import BOTH, BUCKETS, TAGS, actor_of
from ops.automations.models import AutomationSource
from ops.automations.sources import acts
from ops.automations.sources.acts import Changed
from tenants.rate_limits import Bucket
from tenants.scopes import Scope

_IMPOSSIBLE: Final = openapi_refusals(ReasonCode.CONFLICT, ReasonCode.SERVICE_UNAVAILABLE)


class SourcesView(ApiView):
    required_scopes: Final = BOTH
    rate_bucket: Final = BUCKETS

    @extend_schema(
        operation_id="listAutomationSources",
        summary="Sources, by name",
        tags=TAGS,
        responses={200: Sources},
        examples=examples.SOURCES,
    )
    def get(self, request: Request) -> Response:
        """Each with what is wrong with it, since when, and the cure."""
        del request
        found = Sources(sources=[SourceAnswer.of(source) for source in AutomationSource.objects.all()])
        return Response(found.model_dump(mode="json"))

    @extend_schema(
        operation_id="makeAutomationSource",
        summary="Make a source",
        tags=TAGS,
        request=NewSource,
        responses={201: SourceWithSecret, **_IMPOSSIBLE},
        examples=examples.MAKE,
    )
    def post(self, request: Request) -> Response:
        """What happened before it was made is none of its events. Its name is taken once.

        A signing secret that was made is in this answer and in no other: rotate it if the answer was lost.
        """
        asked = read_body(request, NewSource)
        made = acts.create_source(
            name=asked.name,
            kind=asked.kind,
            settings=asked.settings,
            token=_source_secret_text(asked.token),
            signing_secret=_source_secret_text(asked.signing_secret),
            actor=actor_of(request),
        )
        return _changed_source_response(made, status=201)


class SourceView(ApiView):
    required_scopes: Final = {"GET": Scope.OPERATOR_READ, "PATCH": Scope.OPERATOR_WRITE}
    rate_bucket: Final = {"GET": Bucket.POLL, "PATCH": Bucket.SUBMIT}

    @extend_schema(
        operation_id="readAutomationSource",
        summary="One source",
        tags=TAGS,
        responses={200: SourceAnswer},
        examples=examples.SOURCE,
    )
    def get(self, request: Request, source: str) -> Response:
        """Never its token or its secrets."""
        del request
        return Response(SourceAnswer.of(_automation_source_named(source)).model_dump(mode="json"))

    @extend_schema(
        operation_id="changeAutomationSource",
        summary="Change a source's settings",
        tags=TAGS,
        request=SourceChange,
        responses={200: SourceWithSecret},
        examples=examples.CHANGE,
    )
    def patch(self, request: Request, source: str) -> Response:
        """All of them: what is left out of `settings` is as if it had never been said."""
        asked = read_body(request, SourceChange)
        found = _automation_source_named(source)
        return _changed_source_response(
            acts.change_source(source=found, settings=asked.settings, actor=actor_of(request))
        )


class SourceRotateView(ApiView):
    required_scopes: Final = {"POST": Scope.OPERATOR_WRITE}
    rate_bucket: Final = Bucket.SUBMIT

    @extend_schema(
        operation_id="rotateAutomationSource",
        summary="Give a source a new token, or a new signing secret",
        tags=TAGS,
        request=SourceRotation,
        responses={200: SourceWithSecret, **_IMPOSSIBLE},
        examples=examples.ROTATE,
    )
    def post(self, request: Request, source: str) -> Response:
        """A token is replaced at once. A former signing secret signs for a day more; with `{}` a new one is made, and
        shown this once.
        """
        asked = read_body(request, SourceRotation)
        found = _automation_source_named(source)
        return _changed_source_response(
            acts.rotate_source_secret(
                source=found,
                token=_source_secret_text(asked.token),
                signing_secret=_source_secret_text(asked.signing_secret),
                actor=actor_of(request),
            )
        )


class SourcePauseView(ApiView):
    required_scopes: Final = {"POST": Scope.OPERATOR_WRITE}
    rate_bucket: Final = Bucket.SUBMIT

    @extend_schema(
        operation_id="pauseAutomationSource",
        summary="Pause a source",
        tags=TAGS,
        request=None,
        responses={200: SourceWithSecret},
        examples=examples.CHANGED,
    )
    def post(self, request: Request, source: str) -> Response:
        """It is not looked at, and its hook refuses. Safe to repeat."""
        return _changed_source_response(
            acts.pause_source(source=_automation_source_named(source), actor=actor_of(request))
        )


class SourceResumeView(ApiView):
    required_scopes: Final = {"POST": Scope.OPERATOR_WRITE}
    rate_bucket: Final = Bucket.SUBMIT

    @extend_schema(
        operation_id="resumeAutomationSource",
        summary="Resume a source",
        tags=TAGS,
        request=None,
        responses={200: SourceWithSecret},
        examples=examples.CHANGED,
    )
    def post(self, request: Request, source: str) -> Response:
        """What happened meanwhile is found as far as its service tells. Safe to repeat."""
        return _changed_source_response(
            acts.resume_source(source=_automation_source_named(source), actor=actor_of(request))
        )


class SourceLookView(ApiView):
    required_scopes: Final = {"POST": Scope.OPERATOR_WRITE}
    rate_bucket: Final = Bucket.SUBMIT

    @extend_schema(
        operation_id="lookAtAutomationSource",
        summary="Have a source looked at now",
        tags=TAGS,
        request=None,
        responses={200: SourceWithSecret, **openapi_refusals(ReasonCode.CONFLICT)},
        examples=examples.CHANGED,
    )
    def post(self, request: Request, source: str) -> Response:
        """Or as soon as its service wants to be asked again."""
        return _changed_source_response(acts.look_now(source=_automation_source_named(source), actor=actor_of(request)))


def _automation_source_named(name: str) -> AutomationSource:
    found = acts.find_source(name)
    if isinstance(found, Refusal):
        raise Problem(ReasonCode.NOT_FOUND, NOT_FOUND_DETAIL)
    return found


def _source_secret_text(given: SecretStr | None) -> str:
    return "" if given is None else given.get_secret_value()


def _changed_source_response(changed: Changed | Refusal, *, status: int = 200) -> Response:
    if isinstance(changed, Refusal):
        raise problems.problem_of_refusal(changed, asked="source", stands_for="source")
    return Response(SourceWithSecret.after(changed).model_dump(mode="json"), status=status)
