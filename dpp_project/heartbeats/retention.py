from dpp_project.retention import DataKind

KINDS = (
    DataKind(
        name="heartbeats",
        tables=("process_heartbeats",),
        states="alive, stale after 30 s of silence",
        made_by="each process of the platform, every 10 s",
        read_by="console, metrics, `/readyz`, `make status`, the alarm `process_silent`",
        until="as long as its process; an hour where that was killed",
        why="Who is alive now. A process that ended in order takes its row along.",
        deleted_by="the process itself, the next one to start on its host, any other after an hour",
    ),
)
