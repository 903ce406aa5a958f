"""The environment of a devstack: addresses, secrets, and the file `.devstack/env` that publishes them."""

import base64
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass

from dpp_project import env, env_file
from dpp_project.devstack import http, ports
from dpp_project.devstack.aws import AccessKey, Aws
from dpp_project.devstack.folder import Folder
from dpp_project.devstack.postgres import Postgres
from dpp_project.devstack.programs import Program
from dpp_project.devstack.valkey import Valkey

QUEUES = {
    "DPP_QUEUE_URL": "dpp-runs",
    "DPP_EXPRESS_QUEUE_URL": "dpp-runs-express",
    "DPP_DLQ_URL": "dpp-dlq",
    "DPP_EVENTS_QUEUE_URL": "dpp-events",
    "DPP_EVENTS_DLQ_URL": "dpp-events-dlq",
}
BUCKET = "dpp-results"
ARCHIVE_BUCKET = "dpp-archives"
ARCHIVE_MB_MAX = "256"
"""Our S3 keeps the parts of an upload in memory until it is complete."""
ADDRESSES = ("DATABASE_URL", "REDIS_URL", "SQS_ENDPOINT_URL", "S3_ENDPOINT_URL")
TOLD_ONLY = frozenset(
    {"DPP_API_URL", "DPP_API_KEY", "DPP_OPERATOR_KEY", "DPP_MCP_URL"}
    | {"DPP_ADMIN_URL", "DPP_ADMIN_USER", "DPP_ADMIN_PASSWORD"}
)
FOREIGN_CREDENTIALS = frozenset({"AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_DEFAULT_PROFILE"})


@dataclass(frozen=True)
class Services:
    """The services of a devstack that are its own; None where the environment names another."""

    postgres: Postgres | None
    valkey: Valkey | None
    aws: Aws | None

    def is_incomplete(self) -> bool:
        """Whether some of the data is missing."""
        return (self.postgres is not None and not self.postgres.exists()) or (
            self.aws is not None and not self.aws.folder.exists()
        )

    def create_missing(self) -> None:
        if self.postgres is not None and not self.postgres.exists():
            self.postgres.create()

    def programs(self) -> list[Program]:
        return [service.program() for service in (self.postgres, self.valkey, self.aws) if service is not None]


def named_outside(environ: Mapping[str, str], told: Mapping[str, str]) -> dict[str, str]:
    """Addresses set from outside. Our own do not count: a shell that has read `.devstack/env` passes them back."""
    given = {name: environ[name] for name in ADDRESSES if environ.get(name)}
    return {name: value for name, value in given.items() if told.get(name) != value or _was_given(name, told)}


def _was_given(name: str, told: Mapping[str, str]) -> bool:
    return name in told.get("DEVSTACK_GIVEN", "").split(",")


def devstack_services(
    folder: Folder, environ: Mapping[str, str], *, durable: bool = True, names: tuple[str, ...] = ()
) -> tuple[Services, dict[str, str]]:
    """The services to run, and the environment for programs that use them. `names` are further ports to keep."""
    told = env_file.read_env_file(folder.env)
    given = named_outside(environ, told)
    own_aws = "SQS_ENDPOINT_URL" not in given or "S3_ENDPOINT_URL" not in given
    fixed = {"api": int(environ["DPP_API_PORT"])} if environ.get("DPP_API_PORT") and "api" in names else {}
    if fixed and told.get("DPP_API_PORT") == environ["DPP_API_PORT"]:
        fixed = {}
    beside = ("workspaces",) if "api" in names else ()
    port = ports.remembered_ports(folder.ports, ("postgres", "redis", "aws", *names, *beside), fixed)
    password = told.get("DEVSTACK_POSTGRES_PASSWORD") or secrets.token_urlsafe(18)
    found = Services(
        postgres=None
        if "DATABASE_URL" in given
        else Postgres(folder.root / "postgres", port["postgres"], password, durable=durable),
        valkey=None if "REDIS_URL" in given else Valkey(folder.root / "redis", port["redis"]),
        aws=Aws(folder.root / "aws", port["aws"], _access_key(told)) if own_aws else None,
    )
    values = {
        "DATABASE_URL": found.postgres.url if found.postgres else given["DATABASE_URL"],
        "REDIS_URL": found.valkey.url if found.valkey else given["REDIS_URL"],
        **_aws_values(found.aws, given, environ, told),
        "DPP_SECRET_KEY": environ.get("DPP_SECRET_KEY") or told.get("DPP_SECRET_KEY") or secrets.token_urlsafe(48),
        "DPP_ENCRYPTION_KEYS": _encryption_keys(environ, told),
        "DPP_HTTPS": environ.get("DPP_HTTPS") or "0",
        "DPP_ALLOWED_HOSTS": environ.get("DPP_ALLOWED_HOSTS") or "127.0.0.1,localhost,testserver",
        "DEVSTACK_POSTGRES_PASSWORD": password,
        "DEVSTACK_GIVEN": ",".join(given),
    }
    if "api" in names:
        values |= _api_values(port["api"], told) | _workspace_values(folder, environ, port["workspaces"])
    else:
        del values["DPP_EXPRESS_QUEUE_URL"]  # what runs its own processes on these services has queues of its own
    return found, values


def _encryption_keys(environ: Mapping[str, str], told: Mapping[str, str]) -> str:
    """Kept as long as the data are: nothing else opens what one of them encrypted."""
    made = base64.b64encode(secrets.token_bytes(env.ENCRYPTION_KEY_BYTES)).decode("ascii")
    return environ.get("DPP_ENCRYPTION_KEYS") or told.get("DPP_ENCRYPTION_KEYS") or made


def _access_key(told: Mapping[str, str]) -> AccessKey:
    """A made-up key: one of a real AWS account must not reach the logs."""
    return AccessKey(
        told.get("AWS_ACCESS_KEY_ID") or f"dpp{secrets.token_hex(15)}",
        told.get("AWS_SECRET_ACCESS_KEY") or f"dpp{secrets.token_hex(30)}",
    )


def _aws_values(
    aws: Aws | None, given: Mapping[str, str], environ: Mapping[str, str], told: Mapping[str, str]
) -> dict[str, str]:
    sqs = given.get("SQS_ENDPOINT_URL") or (aws.url if aws else "")
    s3 = given.get("S3_ENDPOINT_URL") or (aws.url if aws else "")
    ours = aws is not None and "SQS_ENDPOINT_URL" not in given
    values = {
        "SQS_ENDPOINT_URL": sqs,
        "S3_ENDPOINT_URL": s3,
        "S3_PUBLIC_ENDPOINT_URL": environ.get("S3_PUBLIC_ENDPOINT_URL", "") if "S3_ENDPOINT_URL" in given else s3,
        "AWS_REGION": environ.get("AWS_REGION") or "us-east-1",
        "DPP_BUCKET": environ.get("DPP_BUCKET") or BUCKET,
        "DPP_ARCHIVE_BUCKET": environ.get("DPP_ARCHIVE_BUCKET") or ARCHIVE_BUCKET,
    }
    if aws is not None and "S3_ENDPOINT_URL" not in given:
        values["DPP_ARCHIVE_MB_MAX"] = environ.get("DPP_ARCHIVE_MB_MAX") or ARCHIVE_MB_MAX
    for name, queue in QUEUES.items():
        values[name] = f"{sqs}/000000000000/{queue}" if ours else environ.get(name) or f"{sqs}/000000000000/{queue}"
    key = aws.key if aws else _access_key(told)
    for name, invented in (("AWS_ACCESS_KEY_ID", key.id), ("AWS_SECRET_ACCESS_KEY", key.secret)):
        values[name] = environ.get(name) or invented if "SQS_ENDPOINT_URL" in given else invented
    values["S3_PUBLIC_ENDPOINT_URL"] = values["S3_PUBLIC_ENDPOINT_URL"] or s3
    return values


def _api_values(port: int, told: Mapping[str, str]) -> dict[str, str]:
    url = f"http://127.0.0.1:{port}"
    return {
        "DPP_API_URL": url,
        "DPP_MCP_URL": f"{url}/mcp",
        "DPP_API_PORT": str(port),
        "DPP_API_KEY": told.get("DPP_API_KEY", ""),
        "DPP_OPERATOR_KEY": told.get("DPP_OPERATOR_KEY", ""),
        "DPP_ADMIN_URL": f"{url}/admin/",
        "DPP_ADMIN_USER": "admin",
        "DPP_ADMIN_PASSWORD": told.get("DPP_ADMIN_PASSWORD") or secrets.token_urlsafe(12),
    }


def _workspace_values(folder: Folder, environ: Mapping[str, str], port: int) -> dict[str, str]:
    """Processes of this machine hold them, where bubblewrap is there to close them off; "" asks for none.

    Browsers find every name below `localhost` on this machine.
    """
    listens = environ.get("DPP_WORKSPACES_PROXY_PORT") or str(port)
    usual = "process" if shutil.which("bwrap") else ""
    return {
        "DPP_WORKSPACES_DRIVER": environ.get("DPP_WORKSPACES_DRIVER", usual),
        "DPP_WORKSPACES_DIR": environ.get("DPP_WORKSPACES_DIR") or str(folder.root / "workspaces"),
        "DPP_WORKSPACES_PROXY_PORT": listens,
        "DPP_WORKSPACES_URL": environ.get("DPP_WORKSPACES_URL") or f"http://localhost:{listens}",
    }


def for_programs(environ: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    """The environment of our programs: the caller's with ours over it, without what only people need."""
    given = values.get("DEVSTACK_GIVEN", "")
    foreign = frozenset() if "SQS_ENDPOINT_URL" in given or "S3_ENDPOINT_URL" in given else FOREIGN_CREDENTIALS
    kept = {name: value for name, value in environ.items() if name not in TOLD_ONLY | foreign}
    ours = {name: value for name, value in values.items() if name not in TOLD_ONLY and not name.startswith("DEVSTACK_")}
    return http.without_proxy({**kept, **ours})
