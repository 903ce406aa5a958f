"""SQS and S3 on loopback: ministack through `aws_server.py`, in a virtual environment of its own."""

from dataclasses import dataclass
from pathlib import Path

from dpp_project.devstack import http
from dpp_project.devstack.programs import DEVSTACK_VENV, DevstackError, Program

SERVER = Path(__file__).with_name("aws_server.py")
ACCOUNT = "000000000000"


@dataclass(frozen=True)
class AccessKey:
    id: str
    secret: str


@dataclass(frozen=True)
class Aws:
    """ministack's one account has this key, and checks signature and expiry of presigned URLs with it."""

    folder: Path
    port: int
    key: AccessKey

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def queue_url(self, name: str) -> str:
        return f"{self.url}/{ACCOUNT}/{name}"

    def program(self) -> Program:
        python = DEVSTACK_VENV / "bin" / "python"
        if not python.exists():
            raise DevstackError(f"{python} is missing: run `make setup`.")
        self.folder.mkdir(parents=True, exist_ok=True)
        return Program(
            name="aws",
            command=[str(python), "-I", str(SERVER), str(self.port), str(self.folder)],
            environ={"AWS_ACCESS_KEY_ID": self.key.id, "AWS_SECRET_ACCESS_KEY": self.key.secret},
            ready=self.ready,
            port=self.port,
        )

    def ready(self) -> bool:
        return http.url_answers(f"{self.url}/_ministack/health", seconds=1)
