"""The store that the environment names."""

from dpp_project.aws import clients
from dpp_project.process_env import ENV
from dpp_project.processes.per_process import PerProcess
from ops.workspaces.archive_store.store import ArchiveStore


@PerProcess
def shared_archive_store() -> ArchiveStore:
    """This process's. Its threads share it."""
    return ArchiveStore(
        clients.s3_client(ENV.S3_ENDPOINT_URL), ENV.DPP_ARCHIVE_BUCKET, object_bytes_max=ENV.DPP_ARCHIVE_MB_MAX << 20
    )
