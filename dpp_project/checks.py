"""System checks for what would hurt at night. Those that ask a service run with `check --deploy` only."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register  # noqa: A004  Django's own name
from django.db import DatabaseError, connection

from dpp_project import constants, env
from dpp_project.aws import clients
from dpp_project.process_env import ENV
from dpp_project.stores import redis

Configs = Sequence[AppConfig] | None

REQUIRED_TRIGGERS: set[tuple[str, str]] = {
    ("audit_entries", "audit_entries_append_only"),
    ("audit_entries", "audit_entries_never_emptied"),
}


def require_trigger(*, table: str, name: str) -> None:
    """An app names a trigger that its promises rest on; `check --deploy` then looks for it."""
    REQUIRED_TRIGGERS.add((table, name))


@register()
def environment(app_configs: Configs, **_kwargs: Any) -> list[CheckMessage]:
    del app_configs
    found: list[CheckMessage] = []
    if unknown := env.unknown_names():
        found.append(
            Warning(
                f"Nothing reads {', '.join(unknown)}.",
                hint="A typing error? docs/operations.md lists every variable.",
                id="dpp.W001",
            )
        )
    horizon = constants.LEASE_TTL_SECONDS
    if constants.QUEUE_VISIBILITY_SECONDS <= constants.TIMEBOX_SECONDS_MAX:
        found.append(Error("The queue shows a message again while its pack may still run.", id="dpp.E003"))
    if horizon <= 2 * constants.LEASE_HEARTBEAT_INTERVAL_SECONDS or horizon < constants.REAPER_INTERVAL_SECONDS:
        found.append(Error("The reaper's horizon does not fit the lease and its heartbeat.", id="dpp.E004"))
    return found


@register(deploy=True)
def production(app_configs: Configs, **_kwargs: Any) -> list[CheckMessage]:
    del app_configs
    found: list[CheckMessage] = []
    if ENV.DPP_ENABLE_PROBE_PACK and ENV.DPP_HTTPS:
        found.append(Error("The probe pack is sold in production.", hint="Unset DPP_ENABLE_PROBE_PACK.", id="dpp.E007"))
    if ENV.DPP_CLOCK_OFFSET_SECONDS:
        found.append(Error("The clock is moved.", hint="Unset DPP_CLOCK_OFFSET_SECONDS.", id="dpp.E008"))
    if "*" in settings.ALLOWED_HOSTS:
        found.append(Error("Any host name is served.", hint="Name the hosts in DPP_ALLOWED_HOSTS.", id="dpp.E009"))
    if (ENV.AWS_ACCESS_KEY_ID is None) != (ENV.AWS_SECRET_ACCESS_KEY is None):
        found.append(Error("Half an AWS key is set.", hint="Set both parts, or none for a role.", id="dpp.E010"))
    if ENV.DPP_METRICS_TOKEN is None and ENV.DPP_HTTPS:
        found.append(Warning("/metrics answers this machine alone.", hint="Set DPP_METRICS_TOKEN.", id="dpp.W002"))
    return found


@register(deploy=True)
def redis_keeps_what_it_is_given(app_configs: Configs, **_kwargs: Any) -> list[CheckMessage]:
    del app_configs
    try:
        return list(_redis_faults())
    except redis.RedisError as error:
        return [Warning(f"Redis was not asked: {type(error).__name__}.", hint="See REDIS_URL.", id="dpp.W003")]


def _redis_faults() -> Iterable[CheckMessage]:
    client = redis.redis_client()
    policy = client.info("memory").get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        yield Error(
            f"Redis may evict balances and holds (maxmemory-policy {policy}).",
            hint="CONFIG SET maxmemory-policy noeviction, and in its configuration file.",
            id="dpp.E001",
        )
    if client.info("cluster").get("cluster_enabled"):
        yield Error(
            "Redis runs as a cluster; a run's keys would lie on several nodes.",
            hint="Use one primary (replicas are fine), or shard by tenant.",
            id="dpp.E002",
        )


def refuse_unsafe_redis() -> None:
    """At the start of every serving process: a Redis that drops money is worse than none. Away is not unsafe."""
    try:
        faults = list(_redis_faults())
    except redis.RedisError:
        return
    if faults:
        raise SystemExit(
            "DPP does not start:\n" + "\n".join(f"  {fault.id}: {fault.msg} {fault.hint}" for fault in faults)
        )


@register(deploy=True)
def queue_as_provisioned(app_configs: Configs, **_kwargs: Any) -> list[CheckMessage]:
    del app_configs
    queues = {
        "The queue": ("DPP_QUEUE_URL", ENV.DPP_QUEUE_URL),
        "The express queue": ("DPP_EXPRESS_QUEUE_URL", ENV.DPP_EXPRESS_QUEUE_URL),
    }
    found: list[CheckMessage] = []
    for which, (variable, url) in queues.items():
        if url is None:
            continue
        try:
            answer = clients.sqs_client().get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
        except Exception as error:  # noqa: BLE001  botocore's classes are many; the finding is the same
            said = f"{which} was not asked: {type(error).__name__}."
            found.append(Warning(said, hint=f"See {variable}.", id="dpp.W004"))
        else:
            found += _queue_faults(
                which,
                answer["Attributes"],
                visibility_seconds=constants.QUEUE_VISIBILITY_SECONDS,
                receives=constants.QUEUE_MAX_RECEIVES,
            )
    return found


def _queue_faults(
    which: str, attributes: Mapping[Any, str], *, visibility_seconds: int, receives: int
) -> Iterable[CheckMessage]:
    if int(attributes.get("VisibilityTimeout", 0)) != visibility_seconds:
        said = f"{which}'s visibility timeout is not {visibility_seconds} s."
        yield Error(said, hint="manage.py provision", id="dpp.E005")
    redrive = json.loads(attributes.get("RedrivePolicy") or "{}")
    if int(redrive.get("maxReceiveCount", 0)) != receives:
        yield Error(f"{which} has no redrive to its DLQ.", hint="manage.py provision", id="dpp.E005")


@register(deploy=True)
def events_can_be_sent(app_configs: Configs, **_kwargs: Any) -> list[CheckMessage]:
    """Without their queues events wait in Postgres, and the rest of the platform works."""
    del app_configs
    both = "Set DPP_EVENTS_QUEUE_URL and DPP_EVENTS_DLQ_URL, then manage.py provision."
    if (ENV.DPP_EVENTS_QUEUE_URL is None) != (ENV.DPP_EVENTS_DLQ_URL is None):
        return [Error("One of the two queues of events is set.", hint=both, id="dpp.E014")]
    if ENV.DPP_EVENTS_QUEUE_URL is None:
        return [Warning("No queue of events is set: they wait.", hint=both, id="dpp.W007")]
    try:
        answer = clients.sqs_client().get_queue_attributes(QueueUrl=ENV.DPP_EVENTS_QUEUE_URL, AttributeNames=["All"])
    except Exception as error:  # noqa: BLE001  botocore's classes are many; the finding is the same
        said = f"The queue of events was not asked: {type(error).__name__}."
        return [Warning(said, hint="See DPP_EVENTS_QUEUE_URL.", id="dpp.W004")]
    return list(
        _queue_faults(
            "The queue of events",
            answer["Attributes"],
            visibility_seconds=constants.EVENTS_VISIBILITY_SECONDS,
            receives=constants.EVENTS_MAX_RECEIVES,
        )
    )


def postgres_was_not_asked(error: DatabaseError) -> Warning:
    return Warning(f"Postgres was not asked: {type(error).__name__}.", hint="See DATABASE_URL.", id="dpp.W005")


@register(deploy=True)
def database_refuses_what_it_must(app_configs: Configs, **_kwargs: Any) -> list[CheckMessage]:
    """Every constraint, index and trigger that the code rests on is there, and valid."""
    del app_configs
    try:
        present = _names_in_database()
    except DatabaseError as error:
        return [postgres_was_not_asked(error)]
    wanted = {(model._meta.db_table, item.name) for model in apps.get_models() for item in _declared(model)}  # noqa: SLF001
    return [
        Error(f"{table} has lost {name}.", hint="Restore it: manage.py migrate, or by hand.", id="dpp.E006")
        for table, name in sorted((wanted | REQUIRED_TRIGGERS) - present)
    ]


def _declared(model: Any) -> list[Any]:
    return [] if not model._meta.managed else [*model._meta.constraints, *model._meta.indexes]  # noqa: SLF001


def _names_in_database() -> set[tuple[str, str]]:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT conrelid::regclass::text, conname FROM pg_constraint
             WHERE connamespace = current_schema()::regnamespace AND convalidated AND conrelid <> 0
            UNION SELECT indrelid::regclass::text, indexrelid::regclass::text FROM pg_index WHERE indisvalid
            UNION SELECT tgrelid::regclass::text, tgname FROM pg_trigger WHERE tgenabled <> 'D' AND NOT tgisinternal
            """
        )
        return {(table.strip('"'), name.strip('"')) for table, name in cursor.fetchall()}
