"""Memory, queues and large parts of the kernel."""

import ctypes
import mmap
import os
import struct

from runs.box import kernel
from runs.packs.pack import MEBIBYTE
from tests.gear.faults.attacks.table import (
    ATTACKS,
    call,
    did,
    each,
    read,
)

ATTACKS["shmget"] = lambda _at: call("shmctl", call("shmget", 0, 4096, 0o1600), 0, 0) == 0
ATTACKS["shmat_of_the_worker"] = lambda at: call("shmat", at["sysv"], 0, 0)
ATTACKS["msgget"] = lambda _at: call("msgctl", call("msgget", 0, 0o1600), 0, 0) == 0
ATTACKS["semget"] = lambda _at: call("semctl", call("semget", 0, 1, 0o1600), 0, 0, 0) == 0
ATTACKS["mq_open"] = lambda _at: call("mq_open", b"dpp", os.O_CREAT | os.O_RDWR, 0o600, None)
ATTACKS["memfd_create"] = lambda _at: call("memfd_create", b"x", 0)
ATTACKS["shared_anonymous_memory"] = lambda _at: did(mmap.mmap, -1, MEBIBYTE)
ATTACKS["dev_shm_of_the_worker"] = lambda at: read(at["shm"])
ATTACKS["io_uring_setup"] = lambda _at: call("io_uring_setup", 8, ctypes.create_string_buffer(120))
ATTACKS["bpf"] = lambda _at: call(
    "bpf", 0, ctypes.create_string_buffer(struct.pack("IIII", 2, 4, 4, 1) + bytes(112)), 128
)
ATTACKS["userfaultfd"] = lambda _at: call("userfaultfd", 1)
ATTACKS["perf_event_open"] = lambda _at: call(
    "perf_event_open", ctypes.create_string_buffer(struct.pack("IIQ", 1, 112, 1) + b"\0" * 24 + struct.pack("Q", 0x61)
                                                   + bytes(56)), 0, -1, -1, 0)  # fmt: skip
ATTACKS["keyctl"] = lambda _at: call("keyctl", 0, -3, 1)
ATTACKS["add_key"] = lambda _at: call("add_key", b"user", b"dpp", b"x", 1, -4)
ATTACKS["fanotify"] = lambda _at: call("fanotify_init", 0x200, 0)
ATTACKS["kernel_log"] = lambda _at: call("syslog", 10, None, 0)
ATTACKS["personality"] = lambda _at: call("personality", 0x0040000) >= 0
ATTACKS["become_dumpable"] = lambda _at: did(kernel.undumpable, really=False)
each("reboot swapoff init_module kexec_load", lambda name: lambda _at: call(name, 0, 0, 0, 0), harmful=True)
ATTACKS["sethostname"] = lambda _at: call("sethostname", os.uname().nodename.encode(), len(os.uname().nodename)) == 0
