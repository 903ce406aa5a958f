"""Serves what the services of this host count, where no API runs beside them: `counts_server FOLDER PORT`.

The API's /metrics adds up the counts in its own DPP_METRICS_DIR. In Kubernetes each pod has a folder of its own, so a
worker's counts would be seen by nobody; this stands beside it in its pod (deploy/kubernetes). It knows no settings and
no services, shows counters and histograms alone, and no tenant's name is among them; who may ask is the network's to
say.
"""

import sys
import threading
from pathlib import Path

from prometheus_client import CollectorRegistry, start_http_server

from dpp_project.observe.metrics import CountsOfProcesses


def serve_counts(folder: Path, *, port: int, address: str = "0.0.0.0") -> int:  # noqa: S104  a pod's own address
    """Begins to answer, on threads of its own; the port, where 0 asked for any."""
    registry = CollectorRegistry()
    registry.register(CountsOfProcesses(folder))
    server, _thread = start_http_server(port, addr=address, registry=registry)
    return int(server.server_port)


if __name__ == "__main__":
    serve_counts(Path(sys.argv[1]), port=int(sys.argv[2]))
    threading.Event().wait()
