"""The services of the devstack keep what they were given when they are killed, and end as they are told."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import psycopg
import pytest
import redis
from botocore.config import Config

from dpp_project.devstack import http, ports, postgres, process_identity, valkey
from dpp_project.devstack.aws import AccessKey, Aws
from dpp_project.devstack.folder import Folder
from dpp_project.devstack.programs import DevstackError, Program, spawn_program, unprivileged_start
from dpp_project.devstack.supervisor import Supervisor, Unit
from dpp_project.processes.identity import process_identity_of
from tests.gear.waiting import wait_until

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

ENVIRON = {"PATH": os.environ["PATH"]}
QUICK = Config(retries={"max_attempts": 1}, connect_timeout=2, read_timeout=25)


@contextmanager
def running(program: Program, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The program, started as the supervisor does."""
    with log.open("ab") as output:
        started: list[subprocess.Popen[bytes]] = []

        def is_ready() -> bool:
            if not started or started[-1].poll() is not None:
                program.before()
                started.append(
                    spawn_program(program.command, environ=ENVIRON, output=output, privilege=program.privilege)
                )
            return program.ready()

        try:
            wait_until(is_ready, seconds=20, what=f"{program.name} to answer: {log}")
            yield started[-1]
        finally:
            for process in started:
                process.kill()
                process.wait()


class Cloud:
    """A running SQS and S3 and clients for them; `kill` and `restart` keep folder and port."""

    def __init__(self, folder: Path) -> None:
        self.aws = Aws(folder / "aws", ports.choose_port(), AccessKey("test", "test"))
        self.log = folder / "aws.log"
        self._clients: list[Any] = []
        self._run = running(self.aws.program(), self.log)
        self.process = self._run.__enter__()

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self._run.__exit__(None, None, None)

    def kill_and_restart(self) -> None:
        self.process.kill()
        self.process.wait()
        self._run = running(self.aws.program(), self.log)
        self.process = self._run.__enter__()

    def _client(self, name: Any) -> Any:
        client: Any = boto3.client(
            name,
            endpoint_url=self.aws.url,
            region_name="us-east-1",
            aws_access_key_id="devstack",
            aws_secret_access_key="devstack",
            config=QUICK,
        )
        self._clients.append(client)
        return client

    @property
    def sqs(self) -> "SQSClient":
        client: SQSClient = self._client("sqs")
        return client

    @property
    def s3(self) -> "S3Client":
        client: S3Client = self._client("s3")
        return client


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    made = Cloud(tmp_path)
    try:
        yield made
    finally:
        made.close()


def bodies(sqs: "SQSClient", queue: str, **options: Any) -> dict[str, str]:
    """What can be received now: receipt handles by body."""
    found: dict[str, str] = {}
    while messages := sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, **options).get("Messages"):
        found |= {message["Body"]: message["ReceiptHandle"] for message in messages}
    return found


def test_dpp_77_a_message_whose_sender_was_answered_outlives_a_kill(cloud: Cloud) -> None:
    sqs = cloud.sqs
    queue = sqs.create_queue(QueueName="q", Attributes={"VisibilityTimeout": "1"})["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="deleted")
    receipt = bodies(sqs, queue)["deleted"]
    sqs.send_message(QueueUrl=queue, MessageBody="single")
    entries = [{"Id": str(number), "MessageBody": f"batch {number}"} for number in range(10)]
    sqs.send_message_batch(QueueUrl=queue, Entries=entries)  # type: ignore[arg-type]
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=receipt)
    purged = sqs.create_queue(QueueName="purged")["QueueUrl"]
    sqs.send_message(QueueUrl=purged, MessageBody="purged")
    sqs.purge_queue(QueueUrl=purged)
    cloud.kill_and_restart()
    assert set(bodies(sqs, queue)) == {"single", *(f"batch {number}" for number in range(10))}
    assert bodies(sqs, purged) == {}


def test_dpp_77_settings_of_queues_and_objects_in_buckets_outlive_a_kill(cloud: Cloud) -> None:
    sqs, s3 = cloud.sqs, cloud.s3
    queue = sqs.create_queue(QueueName="q", Attributes={"VisibilityTimeout": "120"})["QueueUrl"]
    s3.create_bucket(Bucket="bucket")
    s3.put_object(Bucket="bucket", Key="a/b.json", Body=b"{}", ContentType="application/json")
    cloud.kill_and_restart()
    attributes = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    assert attributes["VisibilityTimeout"] == "120"
    answer = s3.get_object(Bucket="bucket", Key="a/b.json")
    assert answer["Body"].read() == b"{}"
    assert answer["ContentType"] == "application/json"


def test_dpp_77_dead_letters_can_be_sent_back_to_where_they_came_from(cloud: Cloud) -> None:
    sqs = cloud.sqs
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = f'{{"deadLetterTargetArn": "{arn}", "maxReceiveCount": "1"}}'
    live = sqs.create_queue(QueueName="live", Attributes={"RedrivePolicy": policy, "VisibilityTimeout": "0"})[
        "QueueUrl"
    ]
    sqs.send_message(QueueUrl=live, MessageBody="poison")
    assert set(bodies(sqs, live)) == {"poison"}
    assert bodies(sqs, live) == {}
    count = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["ApproximateNumberOfMessages"])["Attributes"]
    assert count == {"ApproximateNumberOfMessages": "1"}
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [live]
    task = sqs.start_message_move_task(SourceArn=arn)
    done = sqs.list_message_move_tasks(SourceArn=arn)["Results"][0]
    assert (done["TaskHandle"], done["ApproximateNumberOfMessagesMoved"]) == (task["TaskHandle"], 1)
    cloud.kill_and_restart()
    assert set(bodies(sqs, live)) == {"poison"}


def test_it_listens_on_loopback_alone(cloud: Cloud) -> None:
    listening = Path(f"/proc/{cloud.process.pid}/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    port = f"{cloud.aws.port:04X}"
    addresses = {line.split()[1] for line in listening if line.split()[3] == "0A" and line.split()[1].endswith(port)}
    assert addresses == {f"0100007F:{port}"}
    assert http.url_answers(f"{cloud.aws.url}/_ministack/health")


def test_a_valkey_whose_port_another_took_does_not_pass_for_started(tmp_path: Path) -> None:
    with (
        valkey.running_valkey(tmp_path / "first") as first,
        pytest.raises(DevstackError, match="did not start"),
        valkey.running_valkey(tmp_path / "second", port=first.port),
    ):
        pytest.fail("two that think the port theirs empty each other's keys")


def test_a_valkey_of_no_port_in_particular_takes_another_where_its_first_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with valkey.running_valkey(tmp_path / "first") as first:
        offered = iter([first.port, ports.choose_port()])
        monkeypatch.setattr(ports, "choose_port", lambda: next(offered))
        with valkey.running_valkey(tmp_path / "second") as second:
            assert second.port != first.port


def test_dpp_77_valkey_keeps_what_it_answered_for_a_second_ago_and_evicts_nothing(tmp_path: Path) -> None:
    with valkey.running_valkey(tmp_path / "redis") as server:
        client = redis.Redis.from_url(server.url)
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        client.set("kept", "yes")
        wait_until(lambda: client.info("persistence")["aof_pending_bio_fsync"] == 0)
    with valkey.running_valkey(tmp_path / "redis", port=server.port):
        assert client.get("kept") == b"yes"
    client.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to leave root behind")
@pytest.mark.parametrize("ways", [("userns", "setpriv"), ("setpriv", "userns")])
def test_dpp_77_as_root_postgres_runs_in_either_way_and_on_the_same_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ways: tuple[str, ...]
) -> None:
    server = postgres.Postgres(tmp_path / "closed" / "postgres", ports.choose_port(), "secret")
    server.folder.parent.mkdir(mode=0o700)
    for way in ways:
        monkeypatch.setattr(postgres, "unprivileged_start", lambda way=way: way)
        if not server.exists():
            server.create()
        with running(server.program(), tmp_path / "log") as process, psycopg.connect(server.url) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS kept ()")
            connection.commit()
            connection.execute("SELECT FROM kept")
            assert b"postgres" in Path(f"/proc/{process.pid}/cmdline").read_bytes()
    assert unprivileged_start() in {"userns", "setpriv"}


def test_a_killed_postgres_keeps_what_was_committed_and_needs_its_password(tmp_path: Path) -> None:
    server = postgres.Postgres(tmp_path / "postgres", ports.choose_port(), "secret")
    server.create()
    with running(server.program(), tmp_path / "log") as process:
        with psycopg.connect(server.url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS seven")
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(server.url.replace("secret", "guess"))
        process.kill()
        process.wait()
    with running(server.program(), tmp_path / "log"), psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT seven FROM kept").fetchone() == (7,)


def test_a_lock_whose_server_is_dead_is_dropped_whoever_has_its_pid_now(tmp_path: Path) -> None:
    server = postgres.Postgres(tmp_path / "postgres", ports.choose_port(), "secret")
    server.create()
    lock = server.folder / "postmaster.pid"
    with running(server.program(), tmp_path / "log") as process:
        server.end_leftovers()
        assert server.ready(), "its server lives"
        content = lock.read_text(encoding="ascii").splitlines()
        process.kill()
        process.wait()
        server.end_leftovers()
        assert not lock.exists()
        lock.touch()  # a server killed while it wrote it
        server.end_leftovers()
        assert not lock.exists()
    with subprocess.Popen(["sleep", "60"]) as stranger:
        lock.write_text("\n".join([str(stranger.pid), *content[1:]]), encoding="ascii")
        with running(server.program(), tmp_path / "log"):
            assert server.ready()
        assert stranger.poll() is None
        stranger.kill()


def test_dpp_77_a_backend_that_outlives_its_killed_server_does_not_keep_a_new_one_from_starting(tmp_path: Path) -> None:
    server = postgres.Postgres(tmp_path / "postgres", ports.choose_port(), "secret")
    server.create()
    with running(server.program(), tmp_path / "log") as process:
        backends = process_identity.child_pids(process.pid)
        os.kill(backends[0], signal.SIGSTOP)
        process.kill()
        process.wait()
        with subprocess.Popen(["sleep", "60"], cwd=server.folder) as shell:
            server.end_leftovers()
            assert [one for one in backends if process_identity_of(one) is not None] == []
            assert shell.poll() is None, "a stranger who stands in the folder"
            shell.kill()
    with running(server.program(), tmp_path / "log") as process:
        assert server.ready()
        started = (tmp_path / "log").read_text(encoding="utf-8").count("starting PostgreSQL")
        assert started == 2, "one start each"


def test_half_a_cluster_is_never_taken_for_a_whole_one(tmp_path: Path) -> None:
    server = postgres.Postgres(tmp_path / "postgres", ports.choose_port(), "secret")
    draft = tmp_path / "postgres.new"
    draft.mkdir()
    (draft / "PG_VERSION").write_text("16\n", encoding="ascii")
    assert not server.exists()
    server.create()
    assert server.exists()
    assert not draft.exists()


STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
POLITE = "import time; print('up', flush=True); time.sleep(60)"
NESTING = """
import os, time
for _ in range(3):
    if os.fork():
        break
    os.setsid()
print('up', flush=True)
time.sleep(60)
"""
FORKING = "import os, time; os.fork() or os.setsid(); print('up', flush=True); time.sleep(60)"


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    folder = Folder(tmp_path / "state")
    folder.make()
    made = Supervisor(folder, ENVIRON)
    try:
        yield made
    finally:
        for unit in made.units.values():
            unit.program = Program(unit.program.name, unit.program.command, lambda: True, stop_seconds=0)
        made.stop(list(made.units))
        made.close()


def program(supervisor: Supervisor, name: str, code: str, **more: Any) -> Program:
    log = supervisor.folder.log(name)
    return Program(name, [sys.executable, "-c", code], lambda: log.exists() and b"up" in log.read_bytes(), **more)


def start(supervisor: Supervisor, *programs: Program) -> None:
    supervisor.add(programs)
    tick_until(supervisor, supervisor.all_ready, "all programs to be ready")


def tick_until(supervisor: Supervisor, look: Callable[[], bool], what: str) -> None:
    def tick_and_look() -> bool:
        supervisor.tick(0.01)
        return look()

    wait_until(tick_and_look, what=what)


def test_dpp_78_a_second_signal_kills_what_does_not_end(supervisor: Supervisor) -> None:
    start(supervisor, program(supervisor, "worker", STUBBORN, stop_seconds=30))
    worker = supervisor.units["worker"].process
    assert worker is not None
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    tick_until(supervisor, lambda: supervisor.stop_requests == 1, "the first signal")
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    supervisor.stop(["worker"])
    assert worker.returncode == -signal.SIGKILL


def test_dpp_78_what_does_not_end_in_its_grace_is_killed(supervisor: Supervisor) -> None:
    start(supervisor, program(supervisor, "worker", STUBBORN, stop_seconds=0.2))
    worker = supervisor.units["worker"].process
    supervisor.stop(["worker"])
    assert worker is not None
    assert worker.returncode == -signal.SIGKILL


@pytest.mark.parametrize(("command", "code"), [("true", 0), ("exit 7", 7), ("kill -9 $$", 137)])
def test_a_command_among_services_ends_with_its_own_code(supervisor: Supervisor, command: str, code: int) -> None:
    assert supervisor.run(["sh", "-c", command], ENVIRON) == code


def test_programs_end_in_the_order_asked_for(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["worker", "api", "redis"]
    start(supervisor, *(program(supervisor, name, POLITE) for name in names))
    ended: list[str] = []
    bury = supervisor._bury

    def noting(unit: Unit) -> None:
        ended.append(unit.program.name)
        bury(unit)

    monkeypatch.setattr(supervisor, "_bury", noting)
    supervisor.stop(["api", "worker", "redis"])
    assert ended == ["api", "worker", "redis"]
    assert not list(supervisor.folder.pids.iterdir())


def test_what_needs_a_service_waits_until_it_answers(supervisor: Supervisor) -> None:
    answers: list[bool] = []
    redis_program = Program("redis", [sys.executable, "-c", POLITE], lambda: bool(answers))
    supervisor.add([redis_program, program(supervisor, "api", POLITE, needs=("redis",))])
    tick_until(supervisor, lambda: supervisor.units["redis"].process is not None, "the service to be started")
    for _ in range(5):
        supervisor.tick(0.01)
    assert supervisor.units["api"].process is None
    answers.append(True)
    tick_until(supervisor, supervisor.all_ready, "both to be ready")


@pytest.mark.contract("DPP-78")
def test_dpp_78_a_worker_that_grew_and_left_in_order_is_started_anew_at_once(supervisor: Supervisor) -> None:
    """Its exit code is 0, as after a drain that was asked for; who keeps it running does not ask for the code."""
    first = supervisor.folder.root / "first"
    leaves = (
        f"import pathlib, sys; first = pathlib.Path({str(first)!r}); first.exists() or (first.touch(), sys.exit(0))"
    )
    start(supervisor, program(supervisor, "worker", f"{leaves}; {POLITE}"))
    unit = supervisor.units["worker"]
    assert (unit.restarts, unit.failures) == (1, 1)
    assert unit.not_before <= unit.started_at, "no delay after the first end"


def test_children_that_a_dead_program_left_are_ended(supervisor: Supervisor) -> None:
    start(supervisor, program(supervisor, "worker", FORKING))
    worker = supervisor.units["worker"].process
    assert worker is not None
    child = wait_until(lambda: process_identity.child_pids(worker.pid))[0]
    known = process_identity_of(child)
    assert known is not None
    worker.kill()
    tick_until(supervisor, lambda: process_identity_of(child) != known, "the orphan to be ended")


def test_children_of_children_are_ended_before_stop_returns(supervisor: Supervisor) -> None:
    start(supervisor, program(supervisor, "worker", NESTING))
    worker = supervisor.units["worker"].process
    assert worker is not None
    nested = [worker.pid]

    def are_born() -> bool:
        nested.extend(process_identity.child_pids(nested[-1]))
        return len(nested) == 4

    wait_until(are_born, what="a child of a child of a child")
    supervisor.stop(["worker"])
    assert [process_identity_of(pid) for pid in nested] == [None] * 4


def test_a_program_that_cannot_start_is_tried_ever_later_and_holds_nobody_up(supervisor: Supervisor) -> None:
    supervisor.add([Program("broken", ["/no/such/program"], lambda: False), program(supervisor, "api", POLITE)])
    broken = supervisor.units["broken"]
    tick_until(supervisor, lambda: broken.failures >= 3, "three failures")
    assert broken.not_before > broken.started_at
    assert supervisor.all_ready(["api"])
    assert not supervisor.all_ready()


def test_a_log_that_grows_too_long_is_begun_anew_and_the_program_writes_on(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpp_project.devstack.supervisor.LOG_BYTES", 1_000)
    monkeypatch.setattr("dpp_project.devstack.supervisor.LOG_CHECK_SECONDS", 0.0)
    code = "import time\nwhile True: print('x' * 99, flush=True); time.sleep(0.001)"
    start(supervisor, Program("api", [sys.executable, "-c", code], lambda: True))
    old = supervisor.folder.logs / "api.log.1"
    tick_until(supervisor, old.exists, "the old log")
    log = supervisor.folder.log("api")
    tick_until(supervisor, lambda: log.read_bytes().startswith(b"x"), "the log to begin anew")
    assert old.stat().st_size > 1_000
    for text in (old.read_bytes(), log.read_bytes()):
        assert set(text.split(b"\n")[:-1]) == {b"x" * 99}, "nothing but whole lines: it writes on at the beginning"
