"""Our own failures to authenticate a request, recorded as auth errors of the tenant `t_operator`."""

from collections.abc import Sequence

from ops.auth_errors import recording
from tenants.failures import AuthFailure
from tenants.scopes import OPERATOR_TENANT_ID


def take_platform_reports(failures: Sequence[AuthFailure]) -> None:
    """What was recorded before one that fails is found again by its id, when all of them are handed over again."""
    for failure in failures:
        report = recording.cleaned_report(
            {
                "requestId": failure.request_id,
                "exceptionClass": failure.exception_class,
                "stacktrace": failure.stacktrace,
                "requestUri": failure.path,
                "httpMethod": failure.method,
            },
            occurred_at=failure.at,
            http_status=failure.http_status,
        )
        recording.record_auth_error(tenant_id=OPERATOR_TENANT_ID, report=report)
