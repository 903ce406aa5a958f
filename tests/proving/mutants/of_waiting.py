"""Faults in what wakes those who wait, and in what they are told."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

WATCHER: Final = "dpp_project/waiting/watcher.py"
PLACES: Final = "dpp_project/waiting/places.py"
STEPS: Final = "runs/waiting/steps.py"
EVENTS: Final = "runs/api/events.py"
VIEWS: Final = "runs/api/views.py"
TELLING: Final = "runs/worker/telling_progress.py"
CLAIMED: Final = "runs/box/claimed.py"

watcher = In("unit/test_waiting_watcher")
waits = In("integration/runs/test_waiting_http")
workspaces = In("integration/workspaces/test_workspace_waits")
events = In("integration/runs/test_run_events")
keys = In("integration/runs/test_waiting_keys")
progress = In("integration/runs/test_progress")
frames = In("unit/test_progress_frames")

MUTANTS: Final = (
    Mutant(
        "a key that only buys is shown the run it waited for",
        "runs/api/views.py",
        "    if Scope.RUNS_READ not in principal_of(request).scopes:\n",
        "    if not principal_of(request).scopes:\n",
        waits("test_dpp_80_a_submit_that_waits_shows_the_run_to_a_key_that_reads_runs"),
    ),
    Mutant(
        "a waiter that came during a look is given it with its gap",
        WATCHER,
        "                if seen >= since and new:\n",
        "                if new:\n",
        watcher("test_a_waiter_that_knows_less_and_comes_during_a_look_misses_no_step"),
    ),
    Mutant(
        "a process that stops lets its waiters wait",
        WATCHER,
        "        for waiter in waiting:\n            waiter.stop()\n",
        "",
        watcher("test_all_are_told_when_the_process_stops_and_who_comes_later_is_told_at_once"),
    ),
    Mutant(
        "a tenant waits as often as it likes",
        PLACES,
        "self._taken[tenant_id] < self._per_tenant and self._all < self._in_process",
        "self._all < self._in_process",
        watcher("test_places_are_bounded_for_each_tenant_and_for_all_and_are_given_back"),
    ),
    Mutant(
        "a place is kept by a client that left",
        PLACES,
        "            if has:\n                self._give_back(tenant_id)\n",
        "            pass\n",
        watcher("test_places_are_bounded_for_each_tenant_and_for_all_and_are_given_back"),
    ),
    Mutant(
        "a wait ends at any step",
        "dpp_project/waiting/until.py",
        "any(is_it(news) for news in came)",
        "came",
        waits("test_dpp_80_it_answers_as_soon_as_the_run_has_ended_and_not_at_the_steps_before"),
    ),
    Mutant(
        "a wait outlives its key",
        "dpp_project/waiting/until.py",
        "any(news.what is WaitEnd.KEY_ENDED for news in came)",
        "False",
        keys("test_dpp_80_a_wait_whose_key_ends_is_answered_with_what_was_known_before"),
    ),
    Mutant(
        "a stream outlives its key",
        EVENTS,
        "                key_watch.watching_key(waiter, key_id),\n",
        "",
        keys("test_dpp_81_a_stream_is_closed_when_its_key_ends_and_hears_nothing_more"),
    ),
    Mutant(
        "a wait outlives the suspension of its tenant",
        "tenants/key_watch.py",
        "            tenant__status=Tenant.Status.ACTIVE,\n",
        "",
        keys("test_dpp_80_a_wait_whose_key_ends_is_answered_with_what_was_known_before"),
    ),
    Mutant(
        "a workspace has arrived while an operation is under way",
        "ops/workspaces/arrivals.py",
        "    if workspace.operation != Operation.NONE or workspace",
        "    if workspace",
        workspaces("test_wsp_12_it_has_arrived_where_nothing_more_comes_by_itself[facts2-False]"),
    ),
    Mutant(
        "a run that goes meanwhile is shown all the same",
        VIEWS,
        "owned_run(request, run_id, self.money), look_at_metered_balance(run.tenant_id)\n",
        "Run.objects.get(pk=run.pk), look_at_metered_balance(run.tenant_id)\n",
        waits("test_dpp_80_a_run_that_is_canceled_or_that_goes_meanwhile_is_answered_as_it_is"),
    ),
    Mutant(
        "what follows the end is an event, too",
        STEPS,
        "            if news.what.ended:\n                return found\n",
        "",
        events("test_dpp_81_an_ended_run_answers_at_once_whatever_was_disputed_since"),
    ),
    Mutant(
        "the last event comes again",
        EVENTS,
        "step.version > after]",
        "step.version >= after]",
        events("test_dpp_81_a_client_that_was_cut_off_gets_what_came_after_its_last_event[2]"),
    ),
    Mutant(
        "a follower is told from what it had, not from what was read",
        EVENTS,
        "            seen = known[-1].version if known else 0\n",
        "            seen = run.version + 1\n",
        events("test_dpp_81_each_step_comes_once_as_it_is_made_and_the_end_closes"),
    ),
    Mutant(
        "the slot waits for Redis to take the progress",
        TELLING,
        "            self._waiting[run_id] = joined_frames(self._waiting.get(run_id, {}), frame)\n"
        "            self._wake()\n",
        "            self._write({run_id: frame}, set())\n",
        progress("test_dpp_90_a_redis_that_takes_none_of_it_holds_up_no_run"),
    ),
    Mutant(
        "what steers a terminal reaches it",
        CLAIMED,
        'one if one.isprintable() or one in "\\n\\t" else " "',
        "one",
        frames("test_a_member_is_taken_within_its_length_and_without_what_steers_a_terminal"),
    ),
)
