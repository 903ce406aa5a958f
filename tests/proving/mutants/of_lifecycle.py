"""Faults in the daily cleanup, the rotation of logs, heartbeats and alarms."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

CLEANING: Final = "dpp_project/lifecycle/cleaning.py"
CLEARING: Final = "dpp_project/lifecycle/clearing.py"
ROTATION: Final = "dpp_project/lifecycle/log_rotation.py"

cleanup = In("integration/lifecycle/test_data_cleanup")
rotation = In("integration/lifecycle/test_log_rotation")
services = In("integration/lifecycle/test_log_services")
days = In("unit/test_cleanup_days")
heartbeats = In("integration/platform/test_heartbeats")

MUTANTS: Final = (
    Mutant(
        "a host whose clock is ahead deletes what is young",
        CLEANING,
        "SELECT least(%s::timestamptz, clock_timestamp())",
        "SELECT greatest(%s::timestamptz, clock_timestamp())",
        cleanup("test_lif_04_nothing_young_goes_whatever_this_hosts_clock_says"),
    ),
    Mutant(
        "a clock set back cleans a date again",
        CLEANING,
        "    if latest is not None and latest.day > day:\n        return None\n",
        "",
        cleanup("test_lif_04_a_week_without_it_is_one_cleanup_and_a_clock_set_back_is_none"),
    ),
    Mutant(
        "a pass that was cut off counts as a whole cleanup",
        CLEANING,
        "    elif not _left(cleanup):\n",
        "    else:\n",
        cleanup("test_lif_04_a_pass_ends_at_its_deadline_or_limit_and_the_next_goes_on"),
    ),
    Mutant(
        "a row that cannot be deleted stops its kind",
        CLEANING,
        "            if size > 1:\n",
        "            if size > 1:\n                raise\n            if size > 1:\n",
        cleanup("test_lif_04_a_row_that_cannot_be_deleted_stays_alone_and_is_shown"),
    ),
    Mutant(
        "a kind that fails ends the cleanup of all",
        CLEANING,
        "        running.failed[kind.name] = type(error).__name__\n",
        "        raise\n",
        cleanup("test_lif_04_a_kind_that_fails_hinders_no_other_and_twice_in_a_row_is_an_alarm"),
    ),
    Mutant(
        "what was deleted is written behind the deletion",
        CLEARING,
        "                noted(batch)\n        except",
        "            noted(batch)\n        except",
        cleanup("test_lif_04_what_was_deleted_is_written_in_the_batchs_own_transaction"),
    ),
    Mutant(
        "a row in another session's hands is waited for",
        CLEARING,
        "select_for_update(skip_locked=True, of=",
        "select_for_update(nowait=True, of=",
        cleanup("test_lif_04_a_row_in_another_sessions_hands_is_left_for_the_next_day"),
    ),
    Mutant(
        "of a time that clocks jump over the old reading counts",
        "dpp_project/lifecycle/days.py",
        "        found = _end_of_gap(wanted, zone)\n",
        "        pass\n",
        days("test_lif_04_a_time_within_a_gap_is_the_moment_of_the_jump"),
    ),
    Mutant(
        "a rotated log is written over by the next",
        ROTATION,
        ".exists():\n",
        ".is_dir():\n",
        rotation("test_lif_07_events_split_at_their_size_too_and_overwrite_nothing"),
    ),
    Mutant(
        "a writer goes on in the renamed file",
        "dpp_project/observe/log_files.py",
        "        if self._is_elsewhere():\n",
        "        if self._identity is None:\n",
        rotation("test_lif_07_after_a_rename_the_next_line_is_in_a_new_file"),
    ),
    Mutant(
        "a host of workers alone rotates nothing",
        "dpp_project/celery.py",
        "    care.start()\n",
        "",
        services("test_lif_07_a_host_without_an_api_rotates_its_logs_too[worker]"),
    ),
    Mutant(
        "what is deleted counts as given back to the disk",
        "dpp_project/lifecycle/models.py",
        "max(0, self.table_bytes_before - self.table_bytes_after)",
        "self.bytes_deleted",
        cleanup("test_lif_04_the_console_shows_cleanups_and_alarms"),
    ),
    Mutant(
        "a batch grows whatever the last one took",
        CLEANING,
        "min(BATCH_MAX, size * 2, round(size * STATEMENT_SECONDS / max(took, 1e-4)))",
        "min(BATCH_MAX, size * 2)",
        cleanup("test_lif_04_a_batch_is_as_large_as_its_time_allows"),
    ),
    Mutant(
        "a loop that hangs looks well",
        "dpp_project/heartbeats/pulse.py",
        "if turns != self._turned else []",
        "if True else []",
        heartbeats("test_lif_08_a_process_that_lives_and_gets_nothing_done_is_told"),
    ),
)
