"""Faults of what holds workspaces: the pid 1 inside, the sandbox around it, and what is written down of both."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

INIT: Final = "ops/workspaces/init/pid1.py"
DRIVER: Final = "ops/workspaces/drivers/process/driver.py"
STARTING: Final = "ops/workspaces/drivers/process/starting.py"
SANDBOX: Final = "ops/workspaces/drivers/process/sandbox.py"
VOLUMES: Final = "ops/workspaces/drivers/process/volumes.py"
RECORDS: Final = "ops/workspaces/drivers/process/records.py"
BASE: Final = "ops/workspaces/drivers/base.py"
CGROUPS: Final = "ops/workspaces/drivers/process/cgroups.py"

contract = In("integration/workspaces/test_driver_contract")
attacks = In("integration/workspaces/test_driver_attacks")
export = In("integration/workspaces/test_driver_export")
process = In("integration/workspaces/test_process_driver")

MUTANTS: Final = (
    Mutant(
        "a dead starter leaves a bubblewrap that waits for ever",
        STARTING,
        "            pass_fds=(*line.descriptors, info_read),\n",
        "            pass_fds=line.descriptors,\n",
        process("test_no_death_of_the_starter_leaves_an_init_that_nobody_knows"),
    ),
    Mutant(
        "a tenant sets the limits of its init",
        SANDBOX,
        '("prlimit64", "sched_setscheduler", "sched_setparam")',
        '("sched_setscheduler", "sched_setparam")',
        attacks("test_no_attack_reaches_anything[process]"),
    ),
    Mutant(
        "an init can be debugged by its tenant",
        INIT,
        "    _prctl(PR_SET_DUMPABLE, 0)\n    given",
        "    given",
        attacks("test_no_attack_reaches_anything[process]"),
    ),
    Mutant(
        "an init obeys its tenant",
        INIT,
        "if pid != 0 and os.getpid() == 1:",
        "if pid < 0:",
        process("test_an_init_answers_no_peer_of_its_own_workspace"),
    ),
    Mutant(
        "an exec's id is run again",
        INIT,
        "        self._exec_ids[exec_id] = None\n",
        '        self._exec_ids[""] = None\n',
        contract("test_an_exec_id_is_run_once[process]"),
    ),
    Mutant(
        "what an exec leaves behind lives on",
        INIT,
        "        left = self._strangers()\n",
        "        left: list[int] = []\n",
        contract("test_what_an_exec_leaves_behind_ends_with_it[process]"),
    ),
    Mutant(
        "a placeholder lets a late start through",
        DRIVER,
        "        if same and not found.placeholder and found.label.op_id == label.op_id:\n",
        "        if found.placeholder or found.label.op_id == label.op_id:\n",
        contract("test_a_name_is_one_operation_s[process]"),
    ),
    Mutant(
        "a workspace mounts another's volume",
        DRIVER,
        "(label and seen.label.workspace_id != label.workspace_id)",
        "(label and seen.name != volume)",
        contract("test_a_volume_is_one_workspace_s[process]"),
    ),
    Mutant(
        "a workspace that is being removed is said to run",
        DRIVER,
        "        if found.stopping:\n",
        "        if found.stopping and found.placeholder:\n",
        contract("test_nothing_begins_in_what_is_being_stopped[process]"),
    ),
    Mutant(
        "a volume goes from under its container",
        DRIVER,
        "                if self.users_of(name):\n",
        "                if not self.users_of(name):\n",
        contract("test_a_workspace_from_its_volume_to_its_end[process]"),
    ),
    Mutant(
        "a pid that was used again is taken for ours",
        RECORDS,
        "        return self.process is not None and process_identity_of(self.pid) == self.process\n",
        "        return self.process is not None and process_identity_of(self.pid) is not None\n",
        process("test_a_pid_that_is_another_s_is_left_alone"),
    ),
    Mutant(
        "a full disk is taken for a corrupt archive",
        VOLUMES,
        ', "Wrote only")',
        ")",
        process("test_a_full_disk_is_an_answer"),
    ),
    Mutant(
        "an archive of a home that changed meanwhile counts",
        VOLUMES,
        "    if code == 1:\n",
        "    if code == 9:\n",
        export("test_what_changes_while_it_is_read_is_no_archive[process]"),
    ),
    Mutant(
        "a kill for want of memory is not told",
        CGROUPS,
        '"memory.events", "memory.oom_control"',
        '"memory.stat", "memory.failcnt"',
        attacks("test_a_memory_bomb_is_ended_and_told[process]"),
    ),
    Mutant(
        "a home that is closed to its tenant is never restored",
        VOLUMES,
        'capability="CAP_DAC_READ_SEARCH", lock=lock.fd, stdin',
        "capability=None, lock=lock.fd, stdin",
        export("test_a_home_that_its_tenant_closed_to_itself_is_opened_by_it_again[process]"),
    ),
    Mutant(
        "nothing runs in a home that is closed to its tenant",
        INIT,
        "            if not self.is_home:\n                raise\n",
        "            raise\n",
        export("test_a_home_that_its_tenant_closed_to_itself_is_opened_by_it_again[process]"),
    ),
    Mutant(
        "empty files take no room",
        BASE,
        "int(sizes[1]) * bytes_per_file(disk)",
        "0",
        process("test_wsp_14_files_are_counted_as_room_though_nothing_is_in_them"),
    ),
)
