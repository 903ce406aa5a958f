"""By the processes beside it: what /proc shows, what debuggers may, signals, limits and priorities."""

import contextlib
import ctypes
import fcntl
import os
import resource
import signal
import socket
import struct
from typing import Any

from tests.gear.faults.attacks.table import (
    ATTACKS,
    CANARY,
    WHO,
    Attack,
    attack,
    call,
    destructive,
    did,
    each,
    read,
)

each(WHO, lambda who: lambda at: read(f"/proc/{at[who]}/environ"), prefix="environ_of_")
each(WHO, lambda who: lambda at: read(f"/proc/{at[who]}/maps"), prefix="maps_of_")
each(WHO, lambda who: lambda at: read(f"/proc/{at[who]}/cmdline"), prefix="cmdline_of_")
each(WHO, lambda who: lambda at: did(os.close, os.open(f"/proc/{at[who]}/mem", os.O_RDONLY)), prefix="memory_of_")
each(WHO, lambda who: lambda at: did(os.close, os.open(f"/proc/{at[who]}/mem", os.O_RDWR)), prefix="writing_into_")
each(WHO, lambda who: lambda at: os.listdir(f"/proc/{at[who]}/fd"), prefix="descriptors_of_")  # noqa: PTH208
each(WHO, lambda who: lambda at: os.listdir(f"/proc/{at[who]}/root/"), prefix="root_of_")  # noqa: PTH208
each(WHO, lambda who: lambda at: os.listdir(f"/proc/{at[who]}/cwd/"), prefix="folder_of_")  # noqa: PTH208


@attack
def canary_in_any_process(at: dict[str, Any]) -> object:
    found = []
    own = {str(os.getpid()), "self", "thread-self"}
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit() and name not in own:
            with contextlib.suppress(OSError):
                if CANARY.encode() in read(f"/proc/{name}/environ"):
                    found.append(name)
    return found


@attack
def other_processes_in_proc(at: dict[str, Any]) -> object:
    return [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]  # noqa: PTH208


# By the calls that debuggers have.

_ATTACH, _SEIZE = 16, 0x4206


def _ptrace(who: str) -> Attack:
    def tried(at: dict[str, Any]) -> object:
        call("ptrace", _SEIZE, at[who], 0, 0)
        return "attached"

    return tried


def _vector(size: int) -> Any:
    buffer = ctypes.create_string_buffer(size)
    return ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(buffer), size)), buffer


def _read_memory(who: str) -> Attack:
    def tried(at: dict[str, Any]) -> object:
        here, buffer = _vector(16)
        there = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(buffer), 16))  # forked: the same address
        return call("process_vm_readv", at[who], here, 1, there, 1, 0)

    return tried


def _write_memory(who: str) -> Attack:
    def tried(at: dict[str, Any]) -> object:
        here, buffer = _vector(16)
        there = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(buffer), 16))
        return call("process_vm_writev", at[who], here, 1, there, 1, 0)

    return tried


def _take_descriptor(who: str) -> Attack:
    def tried(at: dict[str, Any]) -> object:
        held = call("pidfd_open", at[who], 0)
        return [call("pidfd_getfd", held, number, 0) for number in range(3)]

    return tried


each(WHO, _ptrace, prefix="ptrace_", harmful=True)
each("zygote sibling", _read_memory, prefix="process_vm_readv_")
each("zygote sibling", _write_memory, prefix="process_vm_writev_", harmful=True)
each(WHO, _take_descriptor, prefix="pidfd_getfd_")
each(WHO, lambda who: lambda at: call("pidfd_open", at[who], 0), prefix="pidfd_open_")
ATTACKS["kcmp"] = lambda at: call("kcmp", at["worker"], os.getpid(), 0, 3, 3) >= 0

# Signals, limits and priorities of others.


each(WHO, lambda who: lambda at: did(os.kill, at[who], signal.SIGKILL), prefix="kill_", harmful=True)
each(WHO, lambda who: lambda at: did(os.kill, at[who], signal.SIGSTOP), prefix="freeze_", harmful=True)
each(WHO, lambda who: lambda at: did(os.kill, at[who], 0), prefix="find_by_signal_")
each(WHO, lambda who: lambda at: call("tgkill", at[who], at[who], 0) == 0, prefix="tgkill_")
each(WHO, lambda who: lambda at: did(os.killpg, at[who], signal.SIGKILL), prefix="kill_group_of_", harmful=True)
each(WHO, lambda who: lambda at: did(resource.prlimit, at[who], resource.RLIMIT_CORE, (0, 0)), prefix="prlimit_")
each(WHO, lambda who: lambda at: did(os.setpriority, os.PRIO_PROCESS, at[who], 19), prefix="nice_", harmful=True)
each(WHO, lambda who: lambda at: did(os.sched_setaffinity, at[who], {0}), prefix="pin_", harmful=True)
each(
    "worker zygote", lambda who: lambda at: call("ioprio_set", 1, at[who], 3 << 13) == 0, prefix="ioprio_", harmful=True
)


@destructive
def kill_everyone(at: dict[str, Any]) -> object:
    return did(os.kill, -1, signal.SIGKILL)


@attack
def signal_by_queue(at: dict[str, Any]) -> object:
    about = ctypes.create_string_buffer(struct.pack("iii", 0, 0, -1) + bytes(116))
    return call("rt_sigqueueinfo", at["worker"], 0, about) == 0


@attack
def signal_by_owner_of_a_socket(at: dict[str, Any]) -> object:
    one, _other = socket.socketpair()
    return did(fcntl.fcntl, one, fcntl.F_SETOWN, at["worker"])


@attack
def own_priority_raised(at: dict[str, Any]) -> object:
    os.setpriority(os.PRIO_PROCESS, 0, -5)
    return os.getpriority(os.PRIO_PROCESS, 0)


@attack
def own_limits_raised(at: dict[str, Any]) -> object:
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    return resource.getrlimit(resource.RLIMIT_NOFILE)


@attack
def own_realtime(at: dict[str, Any]) -> object:
    return did(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1))
