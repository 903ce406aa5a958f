"""What closes a job in: namespaces where the machine allows them, Landlock and seccomp always, where they are known.

No layer rests on another. Without namespaces a job has its worker's user, and shares with it processes, files and
queues; Landlock then keeps it from every file but those it may read and its own folder, and from signalling or looking
into any process but its own; seccomp keeps it from sockets, shared queues, and other processes' limits.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from runs.box import kernel, landlock, namespaces, readable, seccomp
from runs.box.limits import DISK_BYTES_MAX, FILES_MAX


@dataclass(frozen=True)
class Seal:
    """Made once in a zygote, for all its jobs. `apart`: they have namespaces of their own."""

    apart: bool
    grants: landlock.Grants
    rules: int | None
    """Where every job has the same, since its own folder is a file system of its own."""

    @property
    def clone(self) -> int:
        return namespaces.OF_JOB if self.apart else 0

    def enter(self) -> None:
        """In a new job, before it reads anything that a stranger wrote."""
        if self.apart:
            namespaces.enter_as_job(DISK_BYTES_MAX, FILES_MAX)

    def shut(self, scratch: Path) -> None:
        """For good, for this process and its children. What is missing here, `check` has named."""
        if kernel.MACHINE < 0:
            return
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        if self.rules is not None:
            landlock.restrict_by_landlock(self.rules)
        elif landlock.kernel_knows_landlock():
            own = (
                *landlock.opened_paths(["/proc/self"], landlock.LOOK),
                *landlock.opened_paths([str(scratch)], landlock.KEEP),
            )
            rules = landlock.landlock_ruleset((*self.grants, *own))
            landlock.restrict_by_landlock(rules)
            for descriptor in (rules, *(descriptor for descriptor, _ in own)):
                os.close(descriptor)
        for descriptor, _ in self.grants:
            os.close(descriptor)
        if self.rules is not None:
            os.close(self.rules)
        seccomp.refuse_system_calls()


def seal_of_jobs(may_read: Iterable[str], *, apart: bool) -> Seal:
    if not landlock.kernel_knows_landlock():
        return Seal(apart=apart, grants=(), rules=None)
    devices = landlock.opened_paths(readable.DEVICES, landlock.LOOK | landlock.WRITE_FILE)
    if not apart:
        return Seal(apart=False, grants=(*landlock.opened_paths(may_read, landlock.READ), *devices), rules=None)
    folders = (*landlock.opened_paths(["/"], landlock.READ), *landlock.opened_paths([namespaces.RUN], landlock.USE))
    grants = (*folders, *devices)
    rules = landlock.landlock_ruleset(grants)
    for descriptor, _ in grants:
        os.close(descriptor)
    return Seal(apart=True, grants=(), rules=rules)
