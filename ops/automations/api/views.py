"""/api/automations. Views validate and translate; what happens stands in rules, emitting and rehearsing."""

import uuid
from typing import Any, Final

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from dpp_project import actors
from dpp_project.http import problems
from dpp_project.http.bodies import read_body, read_query
from dpp_project.http.cursors import Cursor
from dpp_project.http.handlers import NOT_FOUND_DETAIL
from dpp_project.http.openapi import openapi_refusals
from dpp_project.http.parameters import query_parameters
from dpp_project.http.parsers import StrictJSONParser
from dpp_project.http.path_ids import id_in_path
from dpp_project.http.problems import Problem
from dpp_project.http.views import ApiView
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from ops.automations import emitting, rehearsing, selectors
from ops.automations.api import documents, examples
from ops.automations.models import AutomationRule, AutomationSource
from ops.automations.rules import rules
from ops.automations.rules.rule_values import RuleChange, RuleValues
from tenants.permissions import principal_of
from tenants.rate_limits import Bucket
from tenants.scopes import Scope

TAGS: Final = ["Automations"]
BOTH: Final = {"GET": Scope.OPERATOR_READ, "POST": Scope.OPERATOR_WRITE}
BUCKETS: Final = {"GET": Bucket.POLL, "POST": Bucket.SUBMIT}
RULE_BYTES_MAX: Final = 1_048_576


class RuleParser(StrictJSONParser):
    max_body_bytes = RULE_BYTES_MAX


class RulesView(ApiView):
    required_scopes: Final = BOTH
    rate_bucket: Final = BUCKETS
    parser_classes = (RuleParser,)

    @extend_schema(
        operation_id="listAutomationRules",
        summary="Rules, in the order in which they are asked",
        tags=TAGS,
        responses={200: documents.AutomationRules},
        examples=examples.RULES,
    )
    def get(self, request: Request) -> Response:
        """All that were not ended, disabled ones too."""
        del request
        found = documents.AutomationRules(
            rules=[documents.AutomationRuleAnswer.of(rule) for rule in selectors.list_automation_rules()]
        )
        return Response(found.model_dump(mode="json"))

    @extend_schema(
        operation_id="makeAutomationRule",
        summary="Make a rule",
        tags=TAGS,
        request=RuleValues,
        responses={201: documents.AutomationRuleAnswer, **openapi_refusals(ReasonCode.CONFLICT)},
        examples=[*examples.NEW_RULE, *examples.RULE_MADE],
    )
    def post(self, request: Request) -> Response:
        """It gets a key of its own, of the tenant's, whose day cap is `usd_per_day`. Its name is taken once."""
        made = rules.create_rule(asked=read_body(request, RuleValues), actor=actor_of(request))
        return Response(_rule(made), status=201)


class RuleView(ApiView):
    required_scopes: Final = {
        "GET": Scope.OPERATOR_READ,
        "PATCH": Scope.OPERATOR_WRITE,
        "DELETE": Scope.OPERATOR_WRITE,
    }
    rate_bucket: Final = {"GET": Bucket.POLL, "PATCH": Bucket.SUBMIT, "DELETE": Bucket.SUBMIT}
    parser_classes = (RuleParser,)

    @extend_schema(
        operation_id="readAutomationRule",
        summary="One rule",
        tags=TAGS,
        responses={200: documents.AutomationRuleAnswer},
        examples=examples.RULE,
    )
    def get(self, request: Request, rule_id: str) -> Response:
        """An ended one too."""
        del request
        found = AutomationRule.objects.select_related("source").filter(pk=id_in_path(rule_id)).first()
        if found is None:
            raise Problem(ReasonCode.NOT_FOUND, NOT_FOUND_DETAIL)
        return Response(_rule(found))

    @extend_schema(
        operation_id="changeAutomationRule",
        summary="Change a rule",
        tags=TAGS,
        request=RuleChange,
        responses={200: documents.AutomationRuleAnswer, **openapi_refusals(ReasonCode.CONFLICT)},
        examples=[*examples.CHANGE, *examples.RULE],
    )
    def patch(self, request: Request, rule_id: str) -> Response:
        """What is left out stays; so do name, source and tenant. Tasks that stand keep what they were made with."""
        changed = rules.change_rule(
            rule_id=id_in_path(rule_id), asked=read_body(request, RuleChange), actor=actor_of(request)
        )
        return Response(_rule(changed))

    @extend_schema(
        operation_id="endAutomationRule",
        summary="End a rule",
        tags=TAGS,
        responses={200: documents.AutomationRuleAnswer},
        examples=examples.RULE,
    )
    def delete(self, request: Request, rule_id: str) -> Response:
        """For good: its key is revoked, what waits of it ends unbought, its name is free. Safe to repeat."""
        return Response(_rule(rules.end_automation_rule(rule_id=id_in_path(rule_id), actor=actor_of(request))))


class RuleTrialView(ApiView):
    required_scopes: Final = {"POST": Scope.OPERATOR_READ}
    rate_bucket: Final = Bucket.POLL
    parser_classes = (RuleParser,)

    @extend_schema(
        operation_id="tryAutomationRules",
        summary="Try the rules with an event",
        tags=TAGS,
        request=documents.RuleTrialRequest,
        responses={200: documents.RuleTrials},
        examples=[*examples.TRIAL, *examples.TRIALS],
    )
    def post(self, request: Request) -> Response:
        """What each enabled rule of the source would do with it and what that may cost. Nothing is stored or held."""
        body = read_body(request, documents.RuleTrialRequest)
        source = AutomationSource.objects.filter(name=body.source).first()
        if source is None:
            raise problems.problem_of_refusal(rules.no_source(body.source), asked="event", stands_for="event")
        found = rehearsing.try_event(source=source, payload=body.event)
        answer = documents.RuleTrials(rules=[documents.RuleTrialAnswer.of(one) for one in found])
        return Response(answer.model_dump(mode="json"))


class AutomationEventsView(ApiView):
    required_scopes: Final = {"GET": Scope.OPERATOR_READ}
    rate_bucket: Final = Bucket.POLL
    reads_query = frozenset({"GET"})

    @extend_schema(
        operation_id="listAutomationEvents",
        summary="Events, newest first",
        tags=TAGS,
        parameters=query_parameters(documents.AutomationEventsQuery),
        responses={200: documents.AutomationEvents},
        examples=examples.EVENTS,
    )
    def get(self, request: Request) -> Response:
        """Also what ended without a task, with the reason."""
        query = read_query(request, documents.AutomationEventsQuery)
        page = selectors.page_of_automation_rows(
            selectors.list_automation_events(status=query.status), below=_below(query), limit=query.limit
        )
        rows = [documents.AutomationEventAnswer.of(event) for event in page.rows]
        answer = documents.AutomationEvents(events=rows, next_cursor=_next(page, "seen_at"))
        return Response(answer.model_dump(mode="json"))


class EmitAgainView(ApiView):
    required_scopes: Final = {"POST": Scope.OPERATOR_WRITE}
    rate_bucket: Final = Bucket.SUBMIT

    @extend_schema(
        operation_id="emitAutomationEventAgain",
        summary="Emit an event again that failed",
        tags=TAGS,
        request=None,
        responses={201: documents.AutomationEventAnswer, **openapi_refusals(ReasonCode.CONFLICT)},
        examples=examples.EMITTED_AGAIN,
    )
    def post(self, request: Request, event: str) -> Response:
        """Once for each failure, as long as the event is kept. A source never does this by itself."""
        again = emitting.emit_again(event_pk=id_in_path(event), actor=actor_of(request))
        if isinstance(again, Refusal):
            raise problems.problem_of_refusal(again, asked="event", stands_for="event")
        (found,) = selectors.list_automation_events(pk=again.pk)
        return Response(documents.AutomationEventAnswer.of(found).model_dump(mode="json"), status=201)


class TasksView(ApiView):
    required_scopes: Final = {"GET": Scope.OPERATOR_READ}
    rate_bucket: Final = Bucket.POLL
    reads_query = frozenset({"GET"})

    @extend_schema(
        operation_id="listAutomationTasks",
        summary="Tasks, newest first",
        tags=TAGS,
        parameters=query_parameters(documents.AutomationTasksQuery),
        responses={200: documents.AutomationTasks},
        examples=examples.TASKS,
    )
    def get(self, request: Request) -> Response:
        """Without their inputs, tries and results, which each task shows by itself."""
        query = read_query(request, documents.AutomationTasksQuery)
        page = selectors.page_of_automation_rows(
            selectors.list_automation_tasks(status=query.status), below=_below(query), limit=query.limit
        )
        rows = [documents.AutomationTaskAnswer.of(task) for task in page.rows]
        answer = documents.AutomationTasks(tasks=rows, next_cursor=_next(page, "created_at"))
        return Response(answer.model_dump(mode="json"))


class TaskView(ApiView):
    required_scopes: Final = {"GET": Scope.OPERATOR_READ}
    rate_bucket: Final = Bucket.POLL

    @extend_schema(
        operation_id="readAutomationTask",
        summary="One task",
        tags=TAGS,
        responses={200: documents.AutomationTaskAnswer},
        examples=examples.TASK,
    )
    def get(self, request: Request, task: str) -> Response:
        """With each attempt and its run, the inputs and the result, as long as they are kept."""
        del request
        found = selectors.task_of(str(id_in_path(task)))
        if found is None:
            raise Problem(ReasonCode.NOT_FOUND, NOT_FOUND_DETAIL)
        return Response(documents.AutomationTaskAnswer.whole(found).model_dump(mode="json"))


class MessagesView(ApiView):
    required_scopes: Final = {"GET": Scope.OPERATOR_READ}
    rate_bucket: Final = Bucket.POLL
    reads_query = frozenset({"GET"})

    @extend_schema(
        operation_id="listAutomationMessages",
        summary="Messages, newest first",
        tags=TAGS,
        parameters=query_parameters(documents.AutomationMessagesQuery),
        responses={200: documents.AutomationMessages},
        examples=examples.MESSAGES,
    )
    def get(self, request: Request) -> Response:
        """What was said, is to be said, or could not be said."""
        query = read_query(request, documents.AutomationMessagesQuery)
        page = selectors.page_of_automation_rows(
            selectors.list_automation_messages(status=query.status), below=_below(query), limit=query.limit
        )
        rows = [documents.AutomationMessageAnswer.of(message) for message in page.rows]
        answer = documents.AutomationMessages(messages=rows, next_cursor=_next(page, "created_at"))
        return Response(answer.model_dump(mode="json"))


def actor_of(request: Request) -> str:
    return actors.key_actor(principal_of(request).prefix)


def _rule(answer: AutomationRule | Refusal) -> dict[str, Any]:
    if isinstance(answer, Refusal):
        raise problems.problem_of_refusal(answer, asked="rule", stands_for="rule")
    return documents.AutomationRuleAnswer.of(answer).model_dump(mode="json")


def _below(query: documents.AutomationPageQuery) -> uuid.UUID | None:
    return None if query.cursor is None else query.cursor.id


def _next(page: selectors.AutomationPage, at: str) -> str | None:
    return None if page.next is None else str(Cursor(getattr(page.rows[-1], at), page.next))
