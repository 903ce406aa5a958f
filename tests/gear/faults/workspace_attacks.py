"""What a hostile tenant tries from inside a workspace. The script runs there, with the system's Python alone.

It is told true names of the outside, which an attacker may have guessed. For each attempt it says what was reached: a
refusal is an OSError, or nothing. `CANARY` is what only the outside holds.
"""

import json
import secrets
from typing import Final

CANARY: Final = f"canary-{secrets.token_hex(8)}"

SCRIPT: Final = r'''
import contextlib, ctypes, json, os, signal, socket, struct, sys
at = json.loads(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
reached = {}
inherited = set(os.listdir("/proc/self/fd"))

def attack(function):
    try:
        found = function()
    except (OSError, ValueError, UnicodeError) as refused:
        found = None
    reached[function.__name__] = None if not found else str(found)[:200]

def call(number, *words):
    answer = libc.syscall(number, *words)
    if answer < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return answer or True

def libc_call(name, *words):
    if getattr(libc, name)(*words) < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return True

def read(path):
    with open(path, "rb") as source:
        return source.read(100_000)

def in_a_child(function):
    """The child's exit code 0 says that it was done."""
    pid = os.fork()
    if pid == 0:
        try: os._exit(0 if function() else 1)
        except BaseException: os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

# Files of the host and of others.
@attack
def file_of_the_host(): return read(at["file"])
@attack
def folder_of_all_workspaces(): return os.listdir(at["root"])
@attack
def folders_of_the_host():
    return [name for name in ("/root", "/var", "/srv", "/sys", "/opt", "/boot", "/mnt") if os.path.exists(name)]
@attack
def homes_of_others(): return [name for name in os.listdir("/home") if name != "workspace"]
@attack
def files_in_etc():
    known = {"alternatives", "ld.so.cache", "localtime", "mime.types", "ssl"}
    return set(os.listdir("/etc")) - known - {"passwd", "group", "hosts", "nsswitch.conf"}
@attack
def link_to_the_host():
    os.symlink(at["file"], "through"); return read("through")
@attack
def root_of_the_init(): return os.listdir("/proc/1/root/")
@attack
def folder_of_the_init(): return os.listdir("/proc/1/cwd/")
@attack
def write_into_the_system():
    for path in ("/usr/x", "/etc/x", "/x", "/dev/x", "/run/x", "/run/pid1.py", "/etc/passwd", "/etc/hosts", "/home/x",
                 "/sys/x", "/proc/sys/kernel/hostname", "/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches",
                 "/proc/sys/kernel/core_uses_pid", "/proc/sysrq-trigger"):
        with contextlib.suppress(OSError):
            open(path, "ab").write(b"x"); return path
@attack
def old_root(): return [one for one in ("/oldroot", "/newroot") if os.path.exists(one)]
@attack
def open_by_handle():
    handle = ctypes.create_string_buffer(struct.pack("Ii", 8, 1) + struct.pack("II", 2, 0) + bytes(120))
    return call(304, os.open(".", os.O_RDONLY), handle, 0)

# Processes.
@attack
def canary_in_any_process():
    for pid in os.listdir("/proc"):
        for name in ("environ", "cmdline"):
            with contextlib.suppress(OSError):
                if pid.isdigit() and int(pid) != os.getpid():
                    if at["canary"].encode() in read("/proc/%s/%s" % (pid, name)): return pid, name
@attack
def processes_of_others():
    return [pid for pid in os.listdir("/proc") if pid.isdigit() and b"sleep\x007778" in read("/proc/%s/cmdline" % pid)]
@attack
def environment_of_the_init(): return read("/proc/1/environ")
@attack
def memory_of_the_init(): return os.open("/proc/1/mem", os.O_RDWR)
@attack
def maps_of_the_init(): return read("/proc/1/maps")
@attack
def descriptors_of_the_init(): return os.listdir("/proc/1/fd")
def _taken(held, number):
    try: return call(438, held, number, 0)
    except OSError: return None
@attack
def descriptor_taken_from_the_init():
    held = os.pidfd_open(1)
    return [number for number in range(3, 40) if _taken(held, number)]
@attack
def ptrace_of_the_init(): return libc_call("ptrace", 16, 1, 0, 0)
@attack
def seizing_the_init(): return libc_call("ptrace", 0x4206, 1, 0, 0)
@attack
def memory_of_the_init_by_call():
    local = ctypes.create_string_buffer(16)
    vector = struct.pack("PN", ctypes.addressof(local), 16)
    return call(310, 1, vector, 1, struct.pack("PN", 0x400000, 16), 1, 0)
@attack
def limits_of_the_init(): return call(302, 1, 7, struct.pack("QQ", 0, 0), 0)
@attack
def last_place_in_the_queue_for_the_init(): return os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)) or True
@attack
def niceness_of_the_init(): return os.setpriority(os.PRIO_PROCESS, 1, 19) or True
@attack
def niceness_of_the_group_of_the_init(): return os.setpriority(os.PRIO_PGRP, 1, 19) or True
@attack
def niceness_of_the_init_by_its_user():
    with contextlib.suppress(OSError): os.setpriority(os.PRIO_USER, 0, 19)
    return os.getpriority(os.PRIO_PROCESS, 1) == 19
@attack
def slow_disk_for_the_init_by_its_user():
    with contextlib.suppress(OSError): call(251, 3, os.getuid(), 3 << 13)
    return libc.syscall(252, 1, 1) == 3 << 13
@attack
def one_core_for_the_init(): return os.sched_setaffinity(1, {0}) or True
@attack
def slow_disk_for_the_init(): return call(251, 1, 1, 3 << 13)
@attack
def debugger_of_a_keeper():
    keepers = [pid for pid in os.listdir("/proc") if pid.isdigit() and int(pid) > 1 and int(pid) != os.getpid()
               and b"pid1.py" in read("/proc/%s/cmdline" % pid)]
    return keepers and libc_call("ptrace", 16, int(keepers[0]), 0, 0)
@attack
def killing_the_init():
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP, signal.SIGINT, signal.SIGSEGV, signal.SIGALRM):
        os.kill(1, number)
    with open("/proc/1/stat") as stat:
        return stat.read().split()[2] not in "RSD"

# Namespaces, mounts, devices, privileges.
kinds = dict(user=0x10000000, mnt=0x20000, pid=0x20000000, net=0x40000000, ipc=0x8000000, uts=0x4000000)
for name, flag in dict(kinds, cgroup=0x2000000, time=0x80).items():
    def unshared(flag=flag): return in_a_child(lambda: call(272, flag))
    unshared.__name__ = "new_namespace_" + name; attack(unshared)
    def together(flag=flag): return in_a_child(lambda: call(272, flag | 0x10000000))
    together.__name__ = "new_namespace_with_user_" + name; attack(together)
@attack
def entering_the_namespace_of_the_init(): return libc_call("setns", os.open("/proc/1/ns/mnt", os.O_RDONLY), 0)
@attack
def mount(): return libc_call("mount", b"x", b"/tmp", b"tmpfs", 0, None)
@attack
def bind(): return libc_call("mount", b"/", b"/tmp", None, 0x1000, None)
@attack
def remount_writable(): return libc_call("mount", b"x", b"/usr", None, 0x1020, None)
@attack
def unmount(): return libc_call("umount2", b"/home/workspace", 2)
@attack
def unmount_proc(): return libc_call("umount2", b"/proc", 2)
@attack
def chroot(): return os.chroot("/tmp") or True
@attack
def pivot(): return call(155, b"/tmp", b"/tmp")
@attack
def device_of_memory(): return os.mknod("mem", 0o20666, os.makedev(1, 1)) or True
@attack
def device_of_a_disk(): return os.mknod("disk", 0o60666, os.makedev(*at["disk"])) or True
@attack
def devices_there(): return set(os.listdir("/dev")) & {"mem", "kmem", "vda", "sda", "kvm", "fuse", "kmsg", "net"}
@attack
def becoming_root(): return in_a_child(lambda: os.setuid(0) or True)
@attack
def becoming_another(): return in_a_child(lambda: os.setuid(1001) or True)
@attack
def other_groups(): return in_a_child(lambda: os.setgroups([0]) or True)
@attack
def giving_files_away(): open("mine", "w"); return os.chown("mine", 0, 0) or True
@attack
def capabilities():
    return [line for line in open("/proc/self/status") if line.startswith("Cap") and int(line.split()[1], 16)]
@attack
def programs_with_privileges():
    flag = next(line for line in open("/proc/self/status") if line.startswith("NoNewPrivs"))
    return flag.split()[1] != "1"
@attack
def host_name(): return in_a_child(lambda: libc_call("sethostname", b"x", 1))
@attack
def clock(): return in_a_child(lambda: libc_call("settimeofday", struct.pack("ll", 1, 1), None))
@attack
def kernel_log(): return libc_call("klogctl", 3, ctypes.create_string_buffer(1000), 1000)
@attack
def kernel_module(): return call(175, b"x", 1, b"")
@attack
def lower_nice(): return os.setpriority(os.PRIO_PROCESS, 0, -20) or True
@attack
def lower_oom_score():
    with open("/proc/self/oom_score_adj", "w") as output: output.write("-1000")
    return True

# Network and sockets.
@attack
def loopback_of_the_host():
    with socket.create_connection(("127.0.0.1", at["port"]), 1) as stream: return stream.recv(100) or "connected"
@attack
def address_of_the_host():
    with socket.create_connection((at["address"], at["port"]), 1) as stream: return stream.recv(100) or "connected"
@attack
def loopback_of_another():
    with socket.create_connection(("127.0.0.1", at["other_port"]), 1) as stream: return "connected"
@attack
def abstract_socket_of_the_host():
    with socket.socket(socket.AF_UNIX) as stream: stream.connect("\0" + at["abstract"]); return "connected"
@attack
def socket_of_the_host():
    with socket.socket(socket.AF_UNIX) as stream: stream.connect(at["socket"]); return "connected"
@attack
def sockets_that_are_named():
    return [line.split()[7] for line in open("/proc/net/unix") if len(line.split()) > 7][1:]
@attack
def interfaces(): return [name for _, name in socket.if_nameindex() if name != "lo"]
@attack
def the_world():
    with socket.create_connection(("1.1.1.1", 53), 1): return "connected"
@attack
def raw_socket(): return socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
@attack
def control_socket_of_the_init():
    """By whatever is reachable as a socket on any path we can see."""
    found = []
    for folder, _, files in os.walk("/", onerror=lambda _: None):
        if folder.startswith(("/proc", "/usr")): continue
        for name in files:
            path = os.path.join(folder, name)
            with contextlib.suppress(OSError):
                if os.lstat(path).st_mode & 0o170000 == 0o140000: found.append(path)
    return found
@attack
def socket_of_the_init_by_its_name():
    with socket.socket(socket.AF_UNIX) as stream: stream.connect("/run/dpp/control"); return "connected"
@attack
def own_descriptors():
    """Nothing was inherited but the three."""
    return inherited - {"0", "1", "2", "3"}  # the third is of the listing

print(json.dumps(reached))
'''


def told(**places: object) -> str:
    return json.dumps({**places, "canary": CANARY})
