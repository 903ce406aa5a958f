"""Faults in the compare-and-set of tickets, and in their reaper."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

TRANSITIONS: Final = "ops/tickets/transitions.py"
REAPER: Final = "ops/tickets/reaper.py"

cycle = In("integration/ops/test_tickets_cycle")
reaper = In("integration/ops/test_tickets_reaper")
backlog = In("integration/ops/test_tickets_backlog")
race = In("race/test_tickets_reaper_race")

MUTANTS: Final = (
    Mutant(
        "a ticket moves whatever version was seen",
        TRANSITIONS,
        "request_id=request_id, version=version, status=status)",
        "request_id=request_id, status=status)",
        cycle("test_tkt_01_a_slow_processor_loses_its_finish_to_whoever_resumed"),
    ),
    Mutant(
        "a result is written for a ticket that was lost",
        TRANSITIONS,
        "        if not row.update(status=status, **processed, **_ticket_step_columns()):\n"
        "            return EdgeOutcome.LOST\n",
        "        row.update(status=status, **processed, **_ticket_step_columns())\n",
        race("test_tkt_03_a_ticket_finished_between_search_and_cleaning_stays_finished"),
    ),
    Mutant(
        "a resumed ticket keeps its version",
        TRANSITIONS,
        'last_processed_at=Now(), attempts=F("attempts") + 1, **_ticket_step_columns()',
        'last_processed_at=Now(), attempts=F("attempts") + 1',
        cycle("test_tkt_01_a_slow_processor_loses_its_finish_to_whoever_resumed"),
    ),
    Mutant(
        "a ticket is approved twice",
        TRANSITIONS,
        ".filter(needs_approval=True, approved_by__isnull=True)",
        ".filter(needs_approval=True)",
        cycle("test_tkt_01_one_operator_approves_and_the_next_is_told"),
    ),
    Mutant(
        "cleaning counts as processing",
        TRANSITIONS,
        "        touch=False,\n",
        "",
        reaper("test_tkt_03_cleaning_leaves_the_documents_result"),
    ),
    Mutant(
        "a ticket that was lost is reported cleaned",
        REAPER,
        "    if outcome is EdgeOutcome.LOST or touched_at is None:\n",
        "    if touched_at is None:\n",
        race("test_tkt_03_a_ticket_finished_between_search_and_cleaning_stays_finished"),
    ),
    Mutant(
        "an older report becomes the latest",
        REAPER,
        "for path in [row.snapshot_path, *([LATEST_PATH] if row.pk == newest else [])]:\n",
        "for path in [row.snapshot_path, LATEST_PATH]:\n",
        reaper("test_tkt_06_after_an_outage_the_latest_is_written_first_and_the_rest_in_bounds"),
    ),
    Mutant(
        "a second run in one second takes the first's name",
        REAPER,
        "        if ReaperReport.objects.filter(snapshot_path=reports.snapshot_path(asof)).exists():\n"
        "            return None\n",
        "",
        reaper("test_tkt_06_a_second_run_in_one_second_waits_for_the_next"),
    ),
    Mutant(
        "a ticket that cannot be ended keeps the others from it",
        REAPER,
        "                if not connection.is_usable():\n                    raise\n",
        "                raise\n",
        reaper("test_tkt_03_a_ticket_that_cannot_be_ended_keeps_no_other_from_it"),
    ),
    Mutant(
        "a refused report ends the writing",
        REAPER,
        "                continue\n            ReaperReport.objects.filter(pk=row.pk)",
        "                return\n            ReaperReport.objects.filter(pk=row.pk)",
        reaper("test_tkt_06_a_report_that_the_storage_refuses_keeps_no_other_from_it"),
    ),
    Mutant(
        "a ticket that cannot be taken ends the cycle",
        "ops/tickets/cycle.py",
        "                if not connection.is_usable():\n                    raise\n",
        "                raise\n",
        backlog("test_tkt_07_a_ticket_that_cannot_be_taken_keeps_no_other_from_being_worked_on"),
    ),
    Mutant(
        "a cycle goes on after its deadline",
        "ops/tickets/cycle.py",
        "            if self.processed and deadline.is_over():\n",
        "            if self.processed is None:\n",
        backlog("test_tkt_07_a_cycle_ends_at_its_deadline_and_the_next_goes_on"),
    ),
)
