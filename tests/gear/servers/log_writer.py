"""A process that writes numbered lines into a folder of log files: the folder, who it is, how many."""

import logging
import sys

from dpp_project.observe.log_files import LogFiles


def main() -> None:
    folder, who, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    handler = LogFiles(folder)
    handler.setFormatter(logging.Formatter("%(message)s"))
    log = logging.getLogger("dpp.request")
    log.propagate = False
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    print("ready", flush=True)  # noqa: T201
    sys.stdin.readline()
    for number in range(count):
        log.info("%s %07d %s", who, number, "x" * 60)


if __name__ == "__main__":
    main()
