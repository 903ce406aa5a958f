"""Faults in what a tenant says of its runs, finds them by, and has deleted."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

deletion = In("integration/runs/test_data_deletion")
metadata = In("integration/runs/test_run_metadata")
usage = In("integration/budget/test_usage")
outside = In("integration/packs/test_packs_from_outside")
scores = In("integration/packs/test_pack_eval")
unknown = In("integration/platform/test_unknown_parameters")

MUTANTS: Final = (
    Mutant(
        "the data of an open run are deleted",
        "runs/finish/data_deletion.py",
        "    if run.finalize_stage != Stage.COMMITTED:",
        "    if run.finalize_stage == Stage.CLAIMED:",
        deletion("test_dpp_92_a_run_that_has_not_ended_is_409_with_its_state[queued]"),
    ),
    Mutant(
        "a deletion goes by the database's clock alone",
        "runs/transitions.py",
        "UPDATE runs SET retention_until = greatest(created_at, least(clock_timestamp(), %(now)s))",
        "UPDATE runs SET retention_until = greatest(created_at, clock_timestamp())",
        deletion("test_dpp_92_it_is_gone_at_once_by_either_clock[behind]"),
    ),
    Mutant(
        "of two deletions at once both are entered",
        "runs/finish/data_deletion.py",
        '        Run.objects.select_for_update().only("pk").get(pk=run_id)',
        '        Run.objects.only("pk").get(pk=run_id)',
        deletion("test_dpp_92_of_two_at_once_one_ends_its_time"),
    ),
    Mutant(
        "a pack answers what it does not declare",
        "runs/packs/eval/result.py",
        "    mean: float\n",
        "",
        scores("test_pack_eval_does_what_its_page_shows"),
    ),
    Mutant(
        "an update of a pack reprices the runs that are held",
        "runs/worker/execution.py",
        "        price_version=_price_version(run, pack),",
        "        price_version=pack.price_version,",
        outside("test_dpp_93_an_update_reprices_no_held_run"),
    ),
    Mutant(
        "metadata outlive the deletion of a run's data",
        "runs/transitions.py",
        "    DELETE FROM run_metadata WHERE run_id = %(run_id)s AND EXISTS (",
        "    DELETE FROM run_metadata WHERE run_id <> %(run_id)s AND EXISTS (",
        deletion("test_dpp_92_the_data_go_and_the_money_stays"),
    ),
    Mutant(
        "a filter by metadata finds rows whose money is not held",
        "runs/reads/listing.py",
        ".exclude(run__money_state=MoneyState.NONE)",
        "",
        metadata("test_dpp_91_a_row_whose_money_is_not_held_is_not_found"),
    ),
    Mutant(
        "what is told apart by metadata is counted twice",
        "budget/usage/reading.py",
        "(VALUES (1), (-1)) AS twice (sign)",
        "(VALUES (1)) AS twice (sign)",
        usage("test_rows_are_told_apart_by_a_key_of_metadata_and_add_up"),
    ),
    Mutant(
        "an unknown query parameter is let through",
        "dpp_project/http/views.py",
        "if request.query_params and method not in self.reads_query:",
        "if request.query_params and method in self.reads_query:",
        unknown("test_dpp_02_an_unknown_parameter_is_422_by_name[/v1/packs?pack=url]"),
    ),
)
