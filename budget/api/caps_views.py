"""/v1/keys and the caps of keys and tenants: they validate and translate; what happens stands in budget/caps."""

import uuid
from datetime import timedelta
from typing import Final, NoReturn

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from budget.api import caps_examples as examples
from budget.api.caps_documents import Caps, KeyFacts, KeyWithSpending, MadeKey, TenantKeys
from budget.api.queries import CapsChange, KeysQuery, NewKeyRequest, RotateKeyRequest
from budget.api.unavailable import budget_unavailable
from budget.caps import key_spending, setting, tenant_keys
from budget.caps.setting import CapsSet
from budget.caps.tenant_keys import KeyMade
from budget.caps.who import AskingKey
from budget.outcomes import Unavailable
from dpp_project.http import problems
from dpp_project.http.bodies import read_body, read_query
from dpp_project.http.cursors import Cursor
from dpp_project.http.handlers import NOT_FOUND_DETAIL
from dpp_project.http.openapi import cost_headers, openapi_refusals
from dpp_project.http.parameters import query_parameters
from dpp_project.http.path_ids import id_in_path
from dpp_project.http.problems import Problem
from dpp_project.http.views import ApiView
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from tenants import authentication
from tenants.models import ApiKey
from tenants.permissions import ANY_KEY, owner_of, principal_of
from tenants.principals import RefusedKey
from tenants.rate_limits import Bucket
from tenants.scopes import Scope

TAGS: Final = ["Keys"]
_PROTECTED: Final = openapi_refusals(ReasonCode.CAPS_PROTECTED)
_PROTECTED_OR_CONFLICT: Final = openapi_refusals(ReasonCode.CAPS_PROTECTED, ReasonCode.CONFLICT)


class KeysView(ApiView):
    required_scopes: Final = {"GET": ANY_KEY, "POST": Scope.KEYS_WRITE}
    rate_bucket: Final = {"GET": Bucket.POLL, "POST": Bucket.SUBMIT}
    reads_query = frozenset({"GET"})

    @extend_schema(
        operation_id="listKeys",
        summary="Keys, what they spent, and their caps",
        tags=TAGS,
        parameters=[*query_parameters(KeysQuery), *cost_headers()],
        responses={200: TenantKeys, **openapi_refusals(ReasonCode.BUDGET_UNAVAILABLE)},
        examples=examples.KEYS,
    )
    def get(self, request: Request) -> Response:
        """Every key of the tenant with `keys:write`, newest first; any other key sees itself alone.

        Keys of one `lineage_id` tell the same sums: count each lineage once.
        """
        query = read_query(request, KeysQuery)
        principal = principal_of(request)
        seen = ApiKey.objects.filter(tenant_id=principal.tenant_id)
        if Scope.KEYS_WRITE not in principal.scopes:
            seen = seen.filter(key_id=principal.key_id)
        page = tenant_keys.page_of(seen, after=query.cursor, limit=query.limit)
        lineages = dict.fromkeys(key.lineage_id for key in page.keys)
        spending = key_spending.spending_of(principal.tenant_id, list(lineages))
        if isinstance(spending, Unavailable):
            raise budget_unavailable()
        answer = TenantKeys(
            keys=[KeyWithSpending.made(key, spending[key.lineage_id]) for key in page.keys],
            next_cursor=None if page.next is None else str(Cursor(*page.next)),
        )
        return Response(answer.model_dump(mode="json"))

    @extend_schema(
        operation_id="createKey",
        summary="Make a key",
        tags=TAGS,
        request=NewKeyRequest,
        parameters=cost_headers(),
        responses={201: MadeKey, **_PROTECTED_OR_CONFLICT},
        examples=examples.CREATE,
    )
    def post(self, request: Request) -> Response:
        """The answer holds the key, this once; it takes no Idempotency-Key, since a key cannot be shown again.

        It is never wider than the key that asks: its scopes are among that key's, it ends no later, and it never
        carries `keys:write`. A key with a cap makes none. A tenant has 1,000 live keys at most, and 1,000 made
        within 24 hours. What the answer did not reach, for a broken connection, stands in the list of keys: revoke it
        and make another.
        """
        body = read_body(request, NewKeyRequest)
        answer = tenant_keys.make_key(
            asking=AskingKey.of(principal_of(request)),
            scopes=body.scopes,
            label=body.label,
            expires_at=body.expires_at,
            limits={} if body.caps is None else body.caps.changes(),
            actor=owner_of(request),
        )
        return _shown_once(answer, asked="key")


class KeyRotateView(ApiView):
    required_scopes: Final = Scope.KEYS_WRITE
    rate_bucket: Final = Bucket.SUBMIT

    @extend_schema(
        operation_id="rotateKey",
        summary="Rotate a key",
        tags=TAGS,
        request=RotateKeyRequest,
        parameters=cost_headers(),
        responses={201: MadeKey, **_PROTECTED_OR_CONFLICT},
        examples=examples.ROTATE,
    )
    def post(self, request: Request, key_id: str) -> Response:
        """A successor with the same scopes, label and lifetime, shown this once; the old key works on for `grace_sec`.

        Both count together, under the same caps. The key to be rotated is the asking one, or one that is no wider;
        the successor ends when the asking key does at the latest.
        """
        wanted = id_in_path(key_id)
        body = read_body(request, RotateKeyRequest)
        answer = tenant_keys.rotate_key(
            asking=AskingKey.of(principal_of(request)),
            key_id=wanted,
            grace=timedelta(seconds=body.grace_sec),
            actor=owner_of(request),
        )
        return _shown_once(answer, asked="rotation")


class KeyRevokeView(ApiView):
    required_scopes: Final = Scope.KEYS_WRITE
    rate_bucket: Final = Bucket.SUBMIT

    @extend_schema(
        operation_id="revokeKey",
        summary="Revoke a key",
        tags=TAGS,
        request=None,
        parameters=cost_headers(),
        responses={200: KeyFacts, **_PROTECTED},
        examples=examples.REVOKE,
    )
    def post(self, request: Request, key_id: str) -> Response:
        """It stops working everywhere within 5 seconds, for good; a successor goes on. Safe to repeat."""
        answer = tenant_keys.revoke_key(
            asking=AskingKey.of(principal_of(request)), key_id=id_in_path(key_id), actor=owner_of(request)
        )
        if isinstance(answer, Refusal):
            _raise_caps_problem(answer, asked="revocation")
        return Response(KeyFacts.of(answer).model_dump(mode="json"))


class KeyCapsView(ApiView):
    required_scopes: Final = Scope.KEYS_WRITE
    rate_bucket: Final = Bucket.SUBMIT

    @extend_schema(
        operation_id="setKeyCaps",
        summary="Set the caps of a key",
        tags=TAGS,
        request=CapsChange,
        parameters=cost_headers(),
        responses={200: Caps, **_PROTECTED},
        examples=examples.CAPS,
    )
    def put(self, request: Request, key_id: str) -> Response:
        """They bind the key and its rotations together. Safe to repeat; `enforced` says whether they are in force.

        No key sets caps of its own, and one that has caps sets none.
        """
        wanted = id_in_path(key_id)
        body = read_body(request, CapsChange)
        key = ApiKey.objects.filter(tenant_id=principal_of(request).tenant_id, key_id=wanted).first()
        if key is None:
            raise Problem(ReasonCode.NOT_FOUND, NOT_FOUND_DETAIL)
        return _set_caps(request, key.lineage_id, body)


class TenantCapsView(ApiView):
    required_scopes: Final = Scope.KEYS_WRITE
    rate_bucket: Final = Bucket.SUBMIT

    @extend_schema(
        operation_id="setTenantCaps",
        summary="Set the caps of the tenant",
        tags=["Budget"],
        request=CapsChange,
        parameters=cost_headers(),
        responses={200: Caps, **_PROTECTED},
        examples=examples.CAPS,
    )
    def put(self, request: Request) -> Response:
        """They bind all its keys together, each beside its own caps. Safe to repeat. A key that has caps sets none."""
        return _set_caps(request, None, read_body(request, CapsChange))


def _shown_once(answer: KeyMade | Refusal, *, asked: str) -> Response:
    if isinstance(answer, Refusal):
        _raise_caps_problem(answer, asked=asked)
    return Response(MadeKey.made(answer).model_dump(mode="json"), status=201)


def _set_caps(request: Request, lineage_id: uuid.UUID | None, body: CapsChange) -> Response:
    principal = principal_of(request)
    answer = setting.set_caps(
        tenant_id=principal.tenant_id,
        lineage_id=lineage_id,
        changes=body.changes(),
        actor=owner_of(request),
        asking=AskingKey.of(principal),
    )
    if not isinstance(answer, CapsSet):
        _raise_caps_problem(answer, asked="change")
    document = Caps.of(answer.limits, answer.revision, enforced=answer.enforced)
    return Response(document.model_dump(mode="json"))


def _raise_caps_problem(refusal: Refusal, *, asked: str) -> NoReturn:
    if refusal.reason is ReasonCode.AUTH_INVALID:  # it ended since it was looked up
        authentication.refuse_key(RefusedKey.REVOKED)
    if refusal.reason is ReasonCode.NOT_FOUND:
        raise Problem(ReasonCode.NOT_FOUND, NOT_FOUND_DETAIL)
    raise problems.problem_of_refusal(refusal, asked=asked, stands_for=asked)
