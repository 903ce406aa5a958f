"""Faults in what closes a job in: each takes one layer away, or a part of it."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

LANDLOCK: Final = "runs/box/landlock.py"
LIMITS: Final = "runs/box/limits.py"
NAMESPACES: Final = "runs/box/namespaces.py"
PACK_PROCESS: Final = "runs/box/pack_process.py"
READABLE: Final = "runs/box/readable.py"
RUNNING: Final = "runs/box/running.py"
SEALING: Final = "runs/box/sealing.py"
SECCOMP: Final = "runs/box/seccomp.py"

attacks = In("integration/packs/test_box_attacks")
packs = In("integration/packs/test_box_packs")
APART: Final = attacks("test_hrd_15_native_code_in_a_job_reaches_nothing[namespaces]")
ALONE: Final = attacks("test_hrd_15_native_code_in_a_job_reaches_nothing[alone]")

MUTANTS: Final = (
    Mutant(
        "a job says as much as it likes",
        RUNNING,
        "        if self._frames > FRAMES_MAX:\n",
        "        if self._frames > FRAMES_MAX * 1_000:\n",
        packs("test_hrd_18_a_job_that_babbles_costs_its_worker_little[charges]"),
    ),
    Mutant(
        "a job logs as much as it likes",
        RUNNING,
        "        self._log_bytes += frame.text_bytes\n",
        "",
        packs("test_hrd_18_a_job_that_babbles_costs_its_worker_little[long log lines]"),
    ),
    Mutant(
        "a job keeps the capabilities of its namespaces",
        NAMESPACES,
        "flags, options)\n    kernel.drop_capabilities()\n",
        "flags, options)\n",
        APART,
    ),
    Mutant("a job has no seccomp filter", SEALING, "        seccomp.refuse_system_calls()\n", "        pass\n", APART),
    Mutant(
        "a job may signal outside of its Landlock domain",
        LANDLOCK,
        "_SCOPES: Final = 0b11",
        "_SCOPES: Final = 0b01",
        ALONE,
    ),
    Mutant("a job may read the temporary folder", READABLE, '"/sbin", "/usr")', '"/sbin", "/tmp", "/usr")', APART),
    Mutant(
        "a job may have memory that no limit counts",
        SECCOMP,
        '    CallRule("mmap", 3, (_SHARED_ANONYMOUS,), mask=_SHARED_ANONYMOUS),  # RLIMIT_DATA does not count it\n',
        "",
        APART,
    ),
    Mutant(
        "a job may leave its session",
        SECCOMP,
        '*("move_pages", "setsid", "setpgid"),',
        '*("move_pages", "setpgid"),',
        APART,
    ),
    Mutant("a job may change modes", SECCOMP, '        "chmod",\n', "", APART),
    Mutant("a job's files have no size", NAMESPACES, 'f"size={size_bytes},nr_inodes=', 'f"nr_inodes=', APART),
    Mutant(
        "a zygote keeps the root that was there before",
        NAMESPACES,
        '    kernel.syscall("umount2", b"/.old", _DETACH)\n    os.rmdir("/.old")  # noqa: PTH106\n',
        "",
        APART,
    ),
    Mutant(
        "two jobs draw the same from OpenSSL",
        PACK_PROCESS,
        "        if seal.apart:\n            _forget_randomness()\n",
        "",
        packs("test_hrd_15_no_two_jobs_of_one_zygote_draw_the_same"),
    ),
    Mutant(
        "a job takes its turn before its neighbours",
        LIMITS,
        "    os.nice(NICE)\n",
        "",
        packs("test_hrd_18_a_job_yields_to_its_neighbours"),
    ),
    Mutant(
        "a worker goes before its jobs where memory runs out",
        LIMITS,
        "        _offer_to_the_oom_killer()\n",
        "",
        packs("test_hrd_18_a_job_yields_to_its_neighbours"),
    ),
)
