"""Faults in the process `events`: its loops, their watching, its end, and what redrive asks."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

LOOPS: Final = "dpp_project/loops_server/supervised_loop.py"
HOST: Final = "dpp_project/loops_server/host.py"

loops = In("unit/test_events_loops")
process = In("integration/platform/test_events_process")

MUTANTS: Final = (
    Mutant(
        "a loop that asks to exit ends its thread, unseen",
        LOOPS,
        "        except (Exception, SystemExit) as error:",
        "        except Exception as error:",
        loops("test_a_loop_that_ends_by_itself_or_asks_to_exit_starts_again"),
    ),
    Mutant(
        "pauses never begin anew",
        LOOPS,
        "failures = 1 if time.monotonic() - began >= WELL_SECONDS else failures + 1\n",
        "failures += 1\n",
        loops("test_pauses_begin_anew_behind_a_loop_that_was_well"),
    ),
    Mutant(
        "a loop that waits in order is taken for hung",
        LOOPS,
        "        if asked != self._seen or self.stop.waiting or not self._thread.is_alive():\n",
        "        if asked != self._seen or not self._thread.is_alive():\n",
        loops("test_a_loop_that_asks_nothing_hangs_after_the_bound_and_one_that_waits_never"),
    ),
    Mutant(
        "a loop that asked once never hangs",
        LOOPS,
        "            self._seen, self.silent_seconds = asked, 0.0\n",
        "            self.silent_seconds = 0.0\n",
        loops("test_a_loop_that_asks_nothing_hangs_after_the_bound_and_one_that_waits_never"),
    ),
    Mutant(
        "a slow Postgres is taken for a loop that hangs",
        LOOPS,
        "        self.stop.questions += 1\n        return execute(*asked)\n",
        "        return execute(*asked)\n",
        process("test_a_turn_of_many_statements_is_none_that_hangs"),
    ),
    Mutant(
        "a process that was frozen finds its loops hung",
        HOST,
        "            seconds = min(time.monotonic() - looked_at, 2 * LOOK_SECONDS)\n",
        "            seconds = time.monotonic() - looked_at\n",
        loops("test_a_process_that_slept_has_watched_its_loops_for_two_looks_at_most"),
    ),
    Mutant(
        "the others are not waited for where one hangs",
        HOST,
        "            if loop not in hung:\n",
        "            if not hung:\n",
        process("test_a_loop_that_hangs_ends_the_process_and_the_others_give_back"),
    ),
    Mutant(
        "a second SIGTERM waits like the first",
        HOST,
        "        if self._stops:\n            os._exit(LATE_CODE)\n",
        "",
        process("test_sigterm_is_waited_for_within_the_grace_and_a_second_one_is_not"),
    ),
    Mutant(
        "what was handled after its letter is sent again",
        "dpp_project/outbox/redrive.py",
        '(event.status == "DEAD" and known.status != "DONE") else known.status\n',
        'event.status == "DEAD" else known.status\n',
        In("integration/outbox/test_outbox_recovery")(
            "test_aut_07_the_letter_of_an_event_that_was_handled_all_the_same_is_not_sent_again"
        ),
    ),
)
