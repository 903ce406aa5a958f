"""Faults in what keeps a workspace's home: one for each mend of the protocol, and some beside them."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

PLANNING: Final = "ops/workspaces/planning.py"
CONDITIONS: Final = "ops/workspaces/conditions.py"
TRANSITIONS: Final = "ops/workspaces/rows/transitions.py"
OBSERVATIONS: Final = "ops/workspaces/rows/observations.py"
MONITOR: Final = "ops/workspaces/host/monitor.py"
LOOKING: Final = "ops/workspaces/host/looking.py"
RECOVERING: Final = "ops/workspaces/host/recovering.py"
RECONCILER: Final = "ops/workspaces/host/reconciler.py"
PLACES: Final = "ops/workspaces/host/places.py"
SWEEPING: Final = "ops/workspaces/host/sweeping.py"
ARCHIVING: Final = "ops/workspaces/operations/archiving.py"
FILLING: Final = "ops/workspaces/operations/filling.py"
CONTAINERS: Final = "ops/workspaces/operations/containers.py"
RUNNING: Final = "ops/workspaces/operations/running.py"
WORK: Final = "ops/workspaces/operations/work.py"
VOLUMES: Final = "ops/workspaces/rows/volumes.py"

unit = In("unit/test_workspace_conditions")
monitor = In("integration/workspaces/test_workspace_monitor")
operations = In("integration/workspaces/test_workspace_operations")
failures = In("integration/workspaces/test_workspace_failures")
sweeping = In("integration/workspaces/test_workspace_sweeping")
loops = In("integration/workspaces/test_workspace_loops")
crashes = In("crash/test_workspace_crashes")

MUTANTS: Final = (
    # An operation ends by a look that began after it.
    Mutant(
        "an old look ends an operation",
        PLANNING,
        "    if not is_fresh or seen.volume.stale or seen.container.stale:\n        return Ending.WAIT\n    is_cleared",
        "    if seen.volume.stale or seen.container.stale:\n        return Ending.WAIT\n    is_cleared",
        unit("test_wsp_05_an_operation_ends_by_what_was_seen_after_it"),
    ),
    Mutant(
        "an effect does not make what was seen old",
        TRANSITIONS,
        'op_step=step, op_lease_until=Now() + LEASE, rev=F("rev") + 1, **changes',
        "op_step=step, op_lease_until=Now() + LEASE, **changes",
        operations("test_wsp_05_a_look_before_an_effect_ends_nothing"),
    ),
    Mutant(
        "a late look is written over a later one",
        OBSERVATIONS,
        "AND w.observed_at IS NOT DISTINCT FROM %(observed_at)s AND w.rev = %(rev)s",
        "AND w.rev = %(rev)s",
        monitor("test_wsp_05_a_late_look_loses_to_the_one_that_was_written"),
    ),
    Mutant(
        "a late look that saw nothing new is written",
        OBSERVATIONS,
        "WHERE w.workspace_id = s.id AND w.observed_at = s.observed_at AND w.rev = s.rev\n",
        "WHERE w.workspace_id = s.id AND w.rev = s.rev\n",
        monitor("test_wsp_05_a_late_look_loses_to_the_one_that_was_written"),
    ),
    Mutant(
        "something is begun on a look that failed",
        PLANNING,
        "    if seen.volume.stale or seen.container.stale:\n        return None\n    if now",
        "    if now",
        unit("test_wsp_05_nothing_is_planned_on_what_is_not_known"),
    ),
    Mutant(
        "a look that failed is taken for absence",
        LOOKING,
        '        log.exception("a look failed unexpectedly")\n    return UNSEEN\n',
        '        log.exception("a look failed unexpectedly")\n    return None  # type: ignore[return-value]\n',
        monitor("test_wsp_06_what_the_list_lacks_is_asked_for_by_name"),
    ),
    Mutant(
        "what the list lacks is gone",
        MONITOR,
        "            looks.volume = live.volume_name\n",
        "            pass\n",
        monitor("test_wsp_06_what_the_list_lacks_is_asked_for_by_name"),
    ),
    Mutant(
        "a list of another disk is a look",
        MONITOR,
        "        if listing.sentinel != str(row.sentinel):\n",
        "        if listing.sentinel is None:\n",
        monitor("test_wsp_06_a_list_of_another_disk_is_no_look"),
    ),
    Mutant(
        "a transition time moves with the reason",
        CONDITIONS,
        "before.status is not finding.status or",
        "before.reason != finding.reason or",
        unit("test_wsp_01_the_transition_time_moves_with_the_status_alone"),
    ),
    Mutant(
        "the bucket is asked at each look",
        MONITOR,
        "(row.is_touched or stored.archive.stale or known != row.archive_key)",
        "True",
        monitor("test_wsp_01_the_bucket_is_asked_when_something_was_done_and_not_otherwise"),
    ),
    # What is wrong.
    Mutant(
        "a vanished home is archived",
        CONDITIONS,
        "    if volume.reason == ConditionReason.VOLUME_LOST:\n",
        "    if volume.reason == ConditionReason.HOME_DOOMED:\n",
        unit("test_wsp_06_what_is_wrong_is_said_in_this_order"),
    ),
    Mutant(
        "an unreadable archive is an error beside a home",
        CONDITIONS,
        "    if volume.reason in GONE_VOLUMES and archive.reason in UNREADABLE_ARCHIVES:\n",
        "    if archive.reason in UNREADABLE_ARCHIVES:\n",
        unit("test_wsp_06_what_is_wrong_is_said_in_this_order"),
    ),
    Mutant(
        "a volume that was made anew is taken for the home",
        MONITOR,
        "    return label == Label(str(volume.workspace_id), str(volume.op_id), volume.attempt)\n",
        "    return label.workspace_id == str(volume.workspace_id)\n",
        monitor("test_wsp_06_a_lost_volume_is_an_error_until_it_is_back"),
    ),
    Mutant(
        "much is gone at once and nobody is asked",
        MONITOR,
        "        if gone >= GONE_AT_ONCE and gone > GONE_SHARE * len(names):\n",
        "        if gone >= GONE_AT_ONCE and gone > len(names):\n",
        monitor("test_wsp_14_much_gone_at_once_freezes_the_driver"),
    ),
    Mutant(
        "a frozen driver is acted on",
        TRANSITIONS,
        "    return WorkspaceDriver.objects.filter(driver_id=driver_id, frozen_at__isnull=False)\n",
        '    return WorkspaceDriver.objects.filter(driver_id="", frozen_at__isnull=False)\n',
        monitor("test_wsp_14_much_gone_at_once_freezes_the_driver"),
    ),
    # Rivals.
    Mutant(
        "the loser of a claim goes on",
        TRANSITIONS,
        "        op_attempt=claim.attempt,\n        op_step=claim.step,\n    )\n",
        "        op_step=claim.step,\n    )\n",
        operations("test_wsp_05_a_loser_of_a_claim_does_nothing_more"),
    ),
    Mutant(
        "an operation is begun on a wish that has changed",
        TRANSITIONS,
        "operation=Operation.NONE, rev=seen.rev, purged_at__isnull=True\n",
        "purged_at__isnull=True\n",
        operations("test_wsp_05_a_loser_of_a_claim_does_nothing_more"),
    ),
    Mutant(
        "a lease that lies an hour ahead is waited for",
        TRANSITIONS,
        "(Q(op_lease_until__lte=Now()) | Q(op_lease_until__gt=Now() + 2 * LEASE))",
        "Q(op_lease_until__lte=Now())",
        operations("test_wsp_05_a_clock_an_hour_off_takes_nothing_over_and_ends_no_pause"),
    ),
    # DOOMED is the point of no return.
    Mutant(
        "an archiving removes no container",
        ARCHIVING,
        "    work.clear(spared=work.is_own_placeholder)\n",
        "",
        operations("test_wsp_07_what_has_ended_is_archived_as_it_is"),
    ),
    Mutant(
        "a fence that was broken dooms all the same",
        ARCHIVING,
        "    if not work.is_own_placeholder(work.driver.look_container(work.container_name)):\n",
        "    if work.driver.look_container(work.container_name) is work:\n",
        operations("test_wsp_07_a_name_that_was_not_held_while_it_was_archived_dooms_nothing"),
    ),
    Mutant(
        "a home in use at its deletion is forgotten",
        PLANNING,
        "    if seen.volume.reason == ConditionReason.HOME_DOOMED:\n",
        "    if seen.volume.reason == ConditionReason.NOT_SEEN_YET:\n",
        operations("test_wsp_07_a_home_in_use_at_its_deletion_is_archived_again"),
    ),
    Mutant(
        "an archiving cannot be taken back",
        ARCHIVING,
        "    return row.desired_state in UP and home.state == VolumeState.LIVE\n",
        "    return False\n",
        operations("test_wsp_05_a_wish_that_changes_at_any_step_of_an_archiving_keeps_the_home"),
    ),
    Mutant(
        "the home is swept that is to be archived again",
        SWEEPING,
        "    return is_home or row.workspace.operation != Operation.NONE\n",
        "    return False\n",
        operations("test_wsp_07_a_home_in_use_at_its_deletion_is_archived_again"),
    ),
    Mutant(
        "an operation's id is used again",
        TRANSITIONS,
        "operation, uuid.uuid4(), 1, FIRST_STEPS[operation])",
        "operation, seen.op_id or uuid.uuid4(), 1, FIRST_STEPS[operation])",
        failures("test_wsp_09_a_failure_ends_its_operation_and_its_id"),
    ),
    Mutant(
        "an archive is not pinned while it is restored",
        TRANSITIONS,
        " and not archives.pin_archive(str(seen.archive_key), op_id=claim.op_id):\n",
        " and seen.archive_key is None:\n",
        operations("test_wsp_07_the_archive_is_kept_from_collection_at_each_step_of_a_restore"),
    ),
    Mutant(
        "a start needs no marker",
        CONTAINERS,
        "    if home is None or container_lacks_marker(row, home):\n",
        "    if home is None:\n",
        operations("test_wsp_07_no_start_without_the_marker_and_a_recheck_sets_it_anew"),
    ),
    Mutant(
        "a volume that was given up is filled for ever",
        VOLUMES,
        "    doom_unfinished(workspace_id)\n    last =",
        "    last =",
        crashes("test_wsp_07_a_fault_loses_nothing"),
    ),
    # What an older database does not know.
    Mutant(
        "newer archives are not asked for before a restore",
        FILLING,
        "        _ask_bucket(work, row)\n",
        "        pass\n",
        failures("test_wsp_08_an_older_database_deletes_nothing_and_restores_nothing"),
    ),
    Mutant(
        "unknown volumes are not asked for before a restore",
        FILLING,
        "        _ask_driver(work)\n",
        "        pass\n",
        failures("test_wsp_08_a_home_that_an_older_database_does_not_know_is_kept"),
    ),
    Mutant(
        "a container on an unknown volume is removed",
        WORK,
        "        if found.volume is not None and not volumes.volume_states([found.volume]):\n",
        "        if found.volume is not None and not found.volume:\n",
        failures("test_wsp_08_a_container_that_an_older_database_does_not_know_runs_on"),
    ),
    Mutant(
        "a home that is there is given up",
        RECOVERING,
        "    return seen.volume.status or seen.volume.reason == ConditionReason.HOME_DOOMED\n",
        "    return False\n",
        failures("test_wsp_06_a_lost_home_is_given_up_by_a_person_alone"),
    ),
    Mutant(
        "a person gives a home up unheard",
        RECOVERING,
        '    return {"decided": True} if told else {}\n',
        '    return {"decided": True}\n',
        failures("test_wsp_08_a_person_who_gives_a_home_up_is_told_first_what_is_unknown"),
    ),
    Mutant(
        "an older database refills what was lived in",
        FILLING,
        "if _is_used_since(work, name, starts)]\n",
        "if False]\n",
        failures("test_wsp_08_an_older_database_in_the_middle_of_a_restore_deletes_no_home_that_came_of_it"),
    ),
    Mutant(
        "a volume is deleted whatever it was used for",
        "ops/workspaces/drivers/base.py",
        "    if starts is not None and (seen.starts or 0) > starts:\n",
        "    if False:\n",
        In("integration/workspaces/test_driver_contract")("test_a_volume_that_was_started_since_is_not_deleted"),
    ),
    # Failures.
    Mutant(
        "an outage counts",
        RUNNING,
        "        transitions.put_off_operation(work.claim, reason=error.reason, message=str(error))\n",
        "        transitions.fail(work.claim, reason=error.reason, message=str(error), ends=False)\n",
        failures("test_wsp_09_a_driver_that_is_away_is_waited_for_and_never_counted"),
    ),
    Mutant(
        "three failures are the end",
        PLANNING,
        "COUNTED_MAX: Final = 10\n",
        "COUNTED_MAX: Final = 3\n",
        failures("test_wsp_09_the_tenth_counted_failure_is_the_last_and_a_person_goes_on"),
    ),
    Mutant(
        "an end is counted twice",
        PLANNING,
        ' or detail.get("container_id") == counted_id:\n',
        ":\n",
        failures("test_wsp_09_a_container_that_ends_at_once_is_started_ten_times"),
    ),
    Mutant(
        "a home is deleted out of ERROR unasked",
        PLANNING,
        "        return Operation.DELETING if now.desired is DesiredState.DELETED and now.discard else None\n",
        "        return Operation.DELETING if now.desired is DesiredState.DELETED else None\n",
        unit("test_wsp_05_nothing_is_planned_on_what_is_not_known"),
    ),
    Mutant(
        "a recovery is read on the loop of all",
        RECONCILER,
        "        self._run_on_a_thread(row.pk, partial(self._recover, row))\n",
        "        self._recover(row)\n",
        operations("test_wsp_09_a_recovery_that_reads_an_archive_keeps_no_pass_waiting"),
    ),
    Mutant(
        "one tenant's operations take all threads of a host",
        PLACES,
        "            return _leaves_as_many(tenant_id, list(self._taken.values()), of=THREADS)\n",
        "            return True\n",
        operations("test_wsp_14_one_tenant_s_starts_take_not_all_threads_of_a_host"),
    ),
    Mutant(
        "operations that were put off ask a bucket that is away on every thread",
        RECONCILER,
        "places.room > 0 and places.has_bucket_place(occupant)",
        "places.room > 0",
        operations("test_wsp_14_a_bucket_that_is_away_takes_not_all_threads_of_a_host"),
    ),
    Mutant(
        "workspaces that wait for a place hide those behind them",
        RECONCILER,
        "        rows = list(due.filter(behind)[:BATCH]) if len(rows) == BATCH else []\n",
        "        rows = []\n",
        operations("test_wsp_14_rows_that_have_to_wait_hide_none_behind_them"),
    ),
    Mutant(
        "what only a person can decide is tried ten times",
        RUNNING,
        "ends=error.for_good, for_good=error.for_good",
        "ends=False, for_good=False",
        failures("test_wsp_07_an_archive_that_no_restore_could_make_is_no_archive_and_tried_once"),
    ),
    Mutant(
        "a dead volume that no list shows is never asked for",
        SWEEPING,
        "    known |= {row.volume_name: row for row in doomed}\n",
        "    del doomed\n",
        sweeping(
            "test_wsp_08_a_dead_volume_that_no_list_shows_is_accounted_for",
            "test_wsp_08_a_deletion_that_broke_off_goes_on_with_the_sweeper",
        ),
    ),
    Mutant(
        "what is left half-made stays",
        SWEEPING,
        "        driver.remove_leftovers()\n",
        "        pass\n",
        sweeping("test_wsp_08_what_is_left_half_made_is_removed_an_hour_later"),
    ),
    Mutant(
        "one volume that does not go keeps all others",
        SWEEPING,
        "    except DriverError as error:\n        log.warning(",
        "    except DriverError as error:\n        raise\n        log.warning(",
        sweeping("test_wsp_08_what_cannot_be_deleted_keeps_nothing_else"),
    ),
    Mutant(
        "the lease of a verb that ends late runs out",
        WORK,
        "                self.hold()\n        except",
        "                pass\n        except",
        loops("test_wsp_05_a_verb_that_ends_late_is_not_overtaken"),
    ),
)
