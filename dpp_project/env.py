"""The environment variables, read once and typed. A wrong value is named and stops the start.

Every variable the platform reads is a field here; its description is the line that docs/operations.md carries.
"""

import base64
import os
from collections.abc import Mapping
from ipaddress import ip_network
from typing import Annotated, Final, Literal, NoReturn
from urllib.parse import urlsplit
from zoneinfo import available_timezones

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError


class EnvironmentInvalid(SystemExit):
    """The start is refused; the message lists each wrong variable and what it should be."""


def _blank_is_unset(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if value != ""}


def _comma_list(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _url(*schemes: str) -> AfterValidator:
    def check(value: str) -> str:
        try:
            parts = urlsplit(value)
            parts.port  # noqa: B018  reading it raises on a port that is no number
        except ValueError as error:
            raise ValueError(f"is not a URL: {error}") from None
        if parts.scheme not in schemes or not parts.hostname:
            raise ValueError(f"must be a URL with a host and one of the schemes {', '.join(schemes)}")
        return value

    return AfterValidator(check)


def _origin_of_names(value: str) -> str:
    parts = urlsplit(value)
    if parts.path or parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError("must be an origin alone, as https://apps.example, without a path or an end slash")
    if all(character in "0123456789.:[]" for character in parts.netloc) or ":" in (parts.hostname or ""):
        raise ValueError("must be a name: below an address there are no names")
    return value


def _known_zone(value: str) -> str:
    if value not in available_timezones():
        raise ValueError("is not a time zone of the tz database")
    return value


def _networks(value: list[str]) -> list[str]:
    try:
        return [str(ip_network(one, strict=False)) for one in value]
    except ValueError as error:
        raise ValueError(f"holds no address or network: {error}") from None


def _encryption_keys(value: list[str]) -> list[str]:
    try:
        lengths = [len(base64.b64decode(one, validate=True)) for one in value]
    except ValueError:
        raise ValueError("each must be base64") from None
    if any(length != ENCRYPTION_KEY_BYTES for length in lengths) or len(set(value)) != len(value):
        raise ValueError(f"each must be {ENCRYPTION_KEY_BYTES} bytes in base64, and none the same as another")
    return value


ENCRYPTION_KEY_BYTES: Final = 32
HttpUrl = Annotated[str, _url("http", "https")]
PostgresUrl = Annotated[str, _url("postgres", "postgresql")]
RedisUrl = Annotated[str, _url("redis", "rediss")]
CommaList = Annotated[list[str], BeforeValidator(_comma_list)]
EncryptionKeys = Annotated[CommaList, AfterValidator(_encryption_keys)]
NetworkList = Annotated[CommaList, AfterValidator(_networks)]
Tcp = Annotated[int, Field(ge=1, le=65_535)]
Days = Annotated[int, Field(ge=1, le=3_650)]


class Environment(BaseModel):
    """Every variable that the platform reads."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    DATABASE_URL: PostgresUrl = Field(description="Postgres, as postgresql://user:password@host:port/name.")
    REDIS_URL: RedisUrl = Field(description="Redis 7+ or Valkey, not a cluster, `maxmemory-policy noeviction`.")
    DPP_SECRET_KEY: str = Field(
        min_length=32,
        description="Signs admin sessions and seals queue messages, the same in every process; 50 or more random "
        "characters.",
    )
    DPP_SECRET_KEY_FALLBACKS: CommaList = Field(
        default=[], description="Other secret keys whose signatures and seals hold, comma-separated, while one changes."
    )
    DPP_ENCRYPTION_KEYS: EncryptionKeys = Field(
        default=[],
        description="Encrypt the signing secrets of webhooks, comma-separated: the first encrypts, all decrypt; each "
        "is 32 random bytes in base64 (`openssl rand -base64 32`). Unset: no webhook can be registered.",
    )
    DPP_QUEUE_URL: HttpUrl = Field(description="SQS queue that wakes the workers.")
    DPP_DLQ_URL: HttpUrl = Field(description="SQS queue for messages that three receives did not finish.")
    DPP_EXPRESS_QUEUE_URL: HttpUrl | None = Field(
        default=None,
        description="SQS queue for the runs of tenants with fewer than four open; unset: all wait in one queue.",
    )
    DPP_EVENTS_QUEUE_URL: HttpUrl | None = Field(
        default=None, description="SQS queue of events; unset: runs are sold, events wait in Postgres."
    )
    DPP_EVENTS_DLQ_URL: HttpUrl | None = Field(
        default=None, description="SQS queue for messages of events that 100 receives did not finish."
    )
    DPP_BUCKET: str = Field(default="dpp-results", min_length=3, description="S3 bucket for results and uploads.")
    DPP_ARCHIVE_BUCKET: str = Field(
        default="dpp-archives", min_length=3, description="S3 bucket for the archives of workspaces, and nothing else."
    )
    DPP_ARCHIVE_MB_MAX: int = Field(
        default=160_000,
        ge=16,
        le=160_000,
        description="Mebibytes that one archive may have, packed; 10,000 parts are all that S3 takes.",
    )
    DPP_UPLOAD_MB_PER_TENANT: int = Field(
        default=5_000, ge=50, le=10_000_000, description="Megabytes that one tenant's uploaded files may hold together."
    )
    SQS_ENDPOINT_URL: HttpUrl | None = Field(default=None, description="SQS endpoint; unset means AWS itself.")
    S3_ENDPOINT_URL: HttpUrl | None = Field(default=None, description="S3 endpoint; unset means AWS itself.")
    S3_PUBLIC_ENDPOINT_URL: HttpUrl | None = Field(
        default=None, description="S3 address put into presigned URLs where clients reach it by another name."
    )
    AWS_REGION: str = Field(default="us-east-1", min_length=1, description="Region of queue and bucket.")
    AWS_ACCESS_KEY_ID: str | None = Field(default=None, description="Unset: boto3's own chain (role, profile).")
    AWS_SECRET_ACCESS_KEY: str | None = Field(default=None, description="Belongs to AWS_ACCESS_KEY_ID.")
    AWS_SESSION_TOKEN: str | None = Field(default=None, description="Only with temporary credentials.")

    DPP_DEBUG: bool = Field(default=False, description="Django's debug pages. Never in production.")
    DPP_ALLOWED_HOSTS: CommaList = Field(default=[], description="Host names served, comma-separated.")
    DPP_CSRF_TRUSTED_ORIGINS: CommaList = Field(
        default=[], description="Origins (https://host) the admin accepts forms from."
    )
    DPP_HTTPS: bool = Field(
        default=True, description="TLS is in front: redirect to it, secure cookies, HSTS. Off only on loopback."
    )
    DPP_METRICS_TOKEN: str | None = Field(
        default=None,
        min_length=16,
        description="Bearer token that /metrics asks for; unset: it answers this machine alone.",
    )

    DPP_METRICS_DIR: str | None = Field(
        default=None,
        description="Folder that the processes of a machine count into, so that `/metrics` adds them up; "
        "unset: one in the folder for temporary files, for this user and database.",
    )

    OTEL_EXPORTER_OTLP_ENDPOINT: HttpUrl | None = Field(
        default=None,
        description="Collector that traces are sent to by OTLP over HTTP; unset: none are made. The SDK reads the "
        "other OTEL_* variables by itself.",
    )
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: HttpUrl | None = Field(
        default=None, description="The same, as the whole address: nothing is appended to it."
    )

    DPP_API_HOST: str = Field(default="127.0.0.1", description="Address the API listens on.")
    DPP_API_PORT: Tcp = Field(default=8000, description="Port the API listens on.")
    DPP_API_WORKERS: int = Field(default=2, ge=1, le=64, description="API processes; one a core.")
    DPP_API_MEMORY_MB: int = Field(
        default=512,
        ge=128,
        le=65_536,
        description="An API process that holds more is replaced; one that asks for twice as much gets none.",
    )
    DPP_API_CONNECTIONS_PER_ADDRESS: int = Field(
        default=500,
        ge=1,
        le=100_000,
        description="Connections of one client's address to one API process; more are closed, the most silent first.",
    )
    DPP_TRUSTED_PROXIES: NetworkList = Field(
        default=[],
        description="Addresses or networks of the proxies in front, comma-separated: what they write into "
        "X-Forwarded-For is the client's address. Unset: the connection's address is, whatever a header says.",
    )
    DPP_API_THREADS: int = Field(default=6, ge=1, le=32, description="Threads in each API process.")
    DPP_WORKER_CONCURRENCY: int = Field(default=8, ge=1, le=256, description="Runs one worker executes at once.")
    DPP_WORKER_MEMORY_MB: int = Field(
        default=1_024,
        ge=256,
        le=65_536,
        description="A worker whose own process holds more drains and leaves, to be started anew.",
    )
    DPP_DB_POOL_SIZE: int = Field(default=8, ge=1, le=64, description="Postgres connections of one process.")
    DPP_REDIS_TIMEOUT_MS: int = Field(default=2_000, ge=50, le=30_000, description="Patience with Redis, each call.")

    DPP_SQS_TIMEOUT_MS: int = Field(default=2_000, ge=50, le=30_000, description="Patience with SQS, each call.")
    DPP_SQS_FIRST_VISIBILITY_SECONDS: int = Field(
        default=45,
        ge=1,
        le=120,
        description="How long a received message is a worker's before its first heartbeat (30 s) must extend that.",
    )
    DPP_SQS_WAIT_SECONDS: int = Field(
        default=5,
        ge=1,
        le=20,
        description="Length of a worker's long poll; a worker that stops waits for its last one.",
    )
    DPP_QUEUE_UNSEALED: Literal["refuse", "accept"] = Field(
        default="refuse",
        description="Messages of senders before 0.2 carry no seal; `accept` only while such senders are replaced.",
    )
    DPP_SQS_GROUP_BY: Literal["tenant", "none"] = Field(
        default="tenant",
        description="`tenant`: messages carry a MessageGroupId, so that a busy tenant does not delay the others.",
    )

    DPP_LLM_BASE_URL: HttpUrl | None = Field(
        default=None,
        description="OpenAI-compatible API (`https://host/v1`) that answers decision runs; unset: the embedded engine.",
    )
    DPP_LLM_API_KEY: str | None = Field(default=None, description="Bearer key of that API, where it wants one.")
    DPP_LLM_MODEL: str | None = Field(default=None, min_length=1, description="Model it is asked for.")
    DPP_LLM_INPUT_MICROS_PER_1K: int | None = Field(
        default=None, ge=0, le=1_000_000_000, description="Price in micros of 1,000 tokens read; 0 is free."
    )
    DPP_LLM_OUTPUT_MICROS_PER_1K: int | None = Field(
        default=None, ge=0, le=1_000_000_000, description="Price in micros of 1,000 tokens written; 0 is free."
    )
    DPP_URL_PRIVATE_HOSTS: str | None = Field(
        default=None,
        description="Names the url pack may fetch at a private place, `name=address:port`, comma-separated. "
        "For development; no request can add to it.",
    )
    DPP_URL_CA_FILE: str | None = Field(
        default=None, description="PEM file of an authority that the url pack trusts beside the public ones."
    )

    DPP_WEBHOOK_PRIVATE_HOSTS: str | None = Field(
        default=None,
        description="Names that webhooks may be sent to at a private place, `name=address:port`, comma-separated. "
        "For development; no request can add to it.",
    )
    DPP_WEBHOOK_CA_FILE: str | None = Field(
        default=None, description="PEM file of an authority that webhooks trust beside the public ones."
    )

    DPP_WORKSPACES_DRIVER: Literal["process", "docker"] | None = Field(
        default=None, description="What holds workspaces at this host; unset: none are sold here."
    )
    DPP_WORKSPACES_DRIVER_ID: str = Field(
        default="local",
        pattern=r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$",
        description="Name of this host, or of its Docker daemon, among all that hold workspaces. Never changed: its "
        "workspaces belong to it by this name.",
    )
    DPP_WORKSPACES_DIR: str = Field(
        default="workspaces", min_length=1, description="Folder of the process driver's volumes and records."
    )
    DPP_WORKSPACES_HOST: str = Field(
        default="127.0.0.1",
        description="Address that the process of workspaces listens on, for API and workers alone: where those run on "
        "other hosts, one of a private network.",
    )
    DPP_WORKSPACES_PORT: int = Field(
        default=0, ge=0, le=65_535, description="Its port; 0: any free one, which it tells them."
    )
    DPP_WORKSPACES_URL: Annotated[HttpUrl, AfterValidator(_origin_of_names)] | None = Field(
        default=None,
        description="Origin below which browsers reach workspaces, each at a name of its own: at "
        "`https://apps.example` a workspace is `https://{workspace_id}.apps.example`. A domain that nothing else uses. "
        "Unset: no links for browsers.",
    )
    DPP_WORKSPACES_PROXY_HOST: str = Field(
        default="127.0.0.1", description="Address that the workspaces' proxy listens on."
    )
    DPP_WORKSPACES_PROXY_PORT: Tcp | None = Field(
        default=None, description="Its port; unset: nothing in a workspace is reached over HTTP."
    )
    DPP_WORKSPACES_IMAGES: CommaList = Field(
        default=[], description="Images that a workspace in Docker may run, comma-separated; the first is the default."
    )
    DPP_WORKSPACES_PER_TENANT: int = Field(
        default=20, ge=1, le=10_000, description="Workspaces that one tenant may have, those being deleted included."
    )
    DPP_WORKSPACES_RUNNING_PER_TENANT: int = Field(
        default=5, ge=1, le=10_000, description="Workspaces of one tenant that may be asked to run at once."
    )
    DPP_WORKSPACES_MB_PER_TENANT: int = Field(
        default=20_000,
        ge=1,
        le=100_000_000,
        description="Megabytes that the volumes of one tenant's workspaces may hold together before no further volume "
        "is made or restored, and those that run are put to rest when it is measured: every few minutes. As much may "
        "their archives hold before no further workspace is made.",
    )
    DPP_WORKSPACES_FREE_MB: int = Field(
        default=10_000,
        ge=0,
        le=100_000_000,
        description="Megabytes free on the disk of the volumes, below which those that run are measured every few "
        "seconds. A disk that is smaller than what all tenants may hold can fill up all the same.",
    )

    DPP_RATE_LIMIT_ON_REDIS_FAILURE: Literal["open", "closed"] = Field(
        default="open", description="Redis away: `open` lets requests pass unmetered, `closed` answers 503."
    )
    DPP_LOG_LEVEL: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(default="INFO", description="Least level.")
    DPP_LOG_DIR: str | None = Field(
        default=None,
        min_length=1,
        description="Folder that the services of a host log into: system, tasks, metrics and events, rotated there; "
        "unset: standard output.",
    )
    DPP_LOG_MAX_MB: int = Field(
        default=100, ge=1, le=100_000, description="Megabytes of a log file, above which it is rotated."
    )
    DPP_LOGS_TOTAL_MB: int = Field(
        default=4_000,
        ge=1,
        le=10_000_000,
        description="Megabytes that all log files of a host may have; above it the oldest rotated ones go before their "
        "days.",
    )
    DPP_LOGS_DAYS: Days = Field(default=7, description="Days that a rotated log file stays.")
    DPP_QUEUE_DAYS: Days = Field(
        default=7, description="Days that events, tasks and messages of automations stay after they ended."
    )
    DPP_RESULTS_DAYS: Days = Field(default=7, description="Days that results of automations' tasks stay.")
    DPP_PROMPTS_DAYS: Days = Field(default=3, description="Days that the prompts of automations' tasks stay.")
    DPP_SESSION_LOGS_DAYS: Days = Field(default=7, description="Days that the session logs of automations' tasks stay.")
    DPP_SEEN_DAYS: Days = Field(
        default=30, description="Days that an event's id is remembered, so that it is not taken twice."
    )
    DPP_DATABASE_DISK_GB: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="Gigabytes of the disk that Postgres lies on, which it cannot be asked for; unset: when it will be "
        "full is not said.",
    )
    DPP_SERVICE: Literal["api", "worker", "reaper", "events", "workspaces", "command"] = Field(
        default="command", description="Which part this process is, in its logs."
    )
    DPP_REPORT_TIME_ZONE: Annotated[str, AfterValidator(_known_zone)] = Field(
        default="Asia/Seoul", description="Zone of report times and file names."
    )
    DPP_AUTOMATIONS_NOTIFY: str | None = Field(
        default=None,
        pattern=r"^(slack:([a-z0-9][a-z0-9_-]{0,63}/)?[A-Z0-9]{1,32}|webhook:[a-z0-9][a-z0-9_-]{0,63})$",
        description="Where automations say what no rule has a place for, the daily report and the platform's alarms "
        "too: `slack:C012345`, `slack:team/C012345` for one of several Slack sources, or `webhook:crm`, a hook source.",
    )
    DPP_SOLO_LIMIT_USD: str = Field(
        default="10000.0000",
        pattern=r"^(0|[1-9][0-9]{0,9})\.[0-9]{4}$",
        description="Most that one person may move in one act, in dollars with four decimals; more takes a ticket and "
        "a second person.",
    )
    DPP_MCP_CONFIRM_USD: str = Field(
        default="10.0000",
        pattern=r"^(0|[1-9][0-9]{0,9})\.[0-9]{4}$",
        description="Above this hold, in dollars with four decimals, a person must agree to what an agent buys by MCP.",
    )
    DPP_TICKET_STALE_SECONDS: int = Field(
        default=86_400,
        ge=1,
        le=31_536_000,
        description="A ticket IN_PROGRESS for longer is ended by the ticket reaper.",
    )
    DPP_TICKET_REAPER_MAX_CLEAN: int = Field(
        default=50, ge=1, le=1_000, description="Tickets that one pass of the ticket reaper ends at most."
    )
    DPP_TICKET_REAPER_EXCLUDED_TYPES: CommaList = Field(
        default=[], description="Types of tickets that the ticket reaper leaves alone, comma-separated."
    )
    DPP_CLOCK_OFFSET_SECONDS: int = Field(
        default=0, ge=-86_400, le=86_400, description="Moves this process's clock. For fault drills only."
    )
    DPP_ENABLE_PROBE_PACK: bool = Field(
        default=False, description="The `probe` pack of the tests. Never in production."
    )


def read_environment(environ: Mapping[str, str] = os.environ) -> Environment:
    """The environment as settings, or a refusal that names every wrong variable at once.

    A wrong value is never repeated in the message: it may be a secret.
    """
    try:
        return Environment.model_validate(_blank_is_unset(environ))
    except ValidationError as error:
        lines = []
        for problem in error.errors(include_input=False, include_url=False):
            name = str(problem["loc"][0])
            field = Environment.model_fields[name]
            said = "is not set" if problem["type"] == "missing" else problem["msg"].removeprefix("Value error, ")
            lines.append(f"  {name}: {said}. {field.description}")
        raise _invalid(lines) from None


def refuse_environment(name: str, said: str) -> NoReturn:
    """Stop the start as `read_environment` does, for a check that only an app can make."""
    raise _invalid([f"  {name}: {said}. {Environment.model_fields[name].description}"])


def _invalid(lines: list[str]) -> EnvironmentInvalid:
    return EnvironmentInvalid(
        "DPP cannot start, the environment is wrong:\n" + "\n".join(lines) + "\nSee docs/operations.md."
    )


def unknown_names(environ: Mapping[str, str] = os.environ) -> list[str]:
    """DPP_ variables that nothing reads: almost always a typing error."""
    known = set(Environment.model_fields) | SET_BY_DEVSTACK
    return sorted(name for name in environ if name.startswith("DPP_") and name not in known)


SET_BY_DEVSTACK = frozenset(
    {"DPP_API_URL", "DPP_API_KEY", "DPP_OPERATOR_KEY", "DPP_MCP_URL", "DPP_ADMIN_URL", "DPP_ADMIN_USER"}
    | {"DPP_ADMIN_PASSWORD"}
)
