/* One workspace: its container, volumes and archives; its row; two loops, their zombies, jobs and people (ops/workspaces/).

   A transaction is one step, a driver's verb is one, a request to S3 is one. The reconciler is one process with many lives:
   at any moment another one may take its operation over, and the verb that the old one was about to call then lands
   whenever it likes (`Zombie`). All that a loser could still do besides is a commit, which its (op_id, attempt) refuses. */

#include "workspace_row.pml"
#include "workspace_past.pml"
#include "workspace_operations.pml"

/* ops/workspaces/host/monitor.py */

#define TRUE_CONTAINER (container == RUNS && mounts == live && live != NO)
#define TRUE_VOLUME (live != NO && volume[live])
#define TRUE_ARCHIVE (archive_key != NO && object[archive_key])
#define LOOKS_AGAIN (!fresh || stale || sees_container != TRUE_CONTAINER || sees_name != (container != NOTHING) || sees_holder != (container == PLACEHOLDER && of_this_op) || \
                     sees_volume != TRUE_VOLUME || sees_archive != TRUE_ARCHIVE)

/* What is said to people is so. */
inline claims_are_true() {
  assert(!volume_lost || !volume[live] || RETURNS > 0);
  assert(!volume_lost || VOLUMES_LOST > 0 || rolled_back);     /* no doing of ours */
  if
  :: operation == NONE && WELL && fresh && !rolled_back ->
     assert(live == NO || home[live] == newest || !volume[live]);
     assert(live != NO || archive_key == NO || kept[archive_key] == newest);
     assert(live != NO || archive_key != NO || newest == 0)
  :: else
  fi
}

proctype Monitor(byte me) {
  bit saw_holder;
  byte saw_container, saw_mounts, saw_volumes, saw_archives;

idle:
  saw_container = 0;
  saw_holder = 0;
  saw_mounts = NO;
  saw_volumes = 0;
  saw_archives = 0;
end_looked:
  atomic {
    LOOKS_AGAIN && !deleted ->
    same_look[me] = 1;
#ifdef REV_AFTER_THE_LOOK
  }
  atomic {
#else
    same_rev[me] = 1
  }
  atomic {
#endif
    if
    :: blind > 0 -> blind--; goto blinded
    :: true
    fi;
#if MONITORS > 1
    looked[me] = 1;
    older[1 - me] = looked[1 - me];
#endif
    saw_container = container;
    saw_holder = (container == PLACEHOLDER && of_this_op);
    saw_mounts = mounts;
#if VOLUMES > 3
    saw_volumes = volume[0] + 2 * volume[1] + 4 * volume[2] + 8 * volume[3];
#elif VOLUMES > 2
    saw_volumes = volume[0] + 2 * volume[1] + 4 * volume[2];
#else
    saw_volumes = volume[0] + 2 * volume[1];
#endif
#if ARCHIVES > 2
    saw_archives = object[0] + 2 * object[1] + 4 * object[2]
#else
    saw_archives = object[0] + 2 * object[1]
#endif
  }
#ifdef REV_AFTER_THE_LOOK
  same_rev[me] = 1;
#endif
  atomic {
    if
#ifdef NO_MONITOR_CAS
    :: true ->
#else
    :: !same_look[me]
    :: same_look[me] ->
#endif
       sees_volume = (live != NO && (saw_volumes >> live) & 1);
       sees_archive = (archive_key != NO && (saw_archives >> archive_key) & 1);
       sees_container = (live != NO && saw_container == RUNS && saw_mounts == live);
       sees_name = (saw_container != NOTHING);
       sees_holder = saw_holder;
       #ifdef NO_REV
       fresh = 1;
#else
       fresh = same_rev[me];
#endif
       stale = 0;
#ifdef CLAIMS_BY_AN_OLD_LOOK
       volume_lost = (live != NO && !sees_volume);
       archive_lost = (live == NO && archive_key != NO && !sees_archive);
#else
#ifdef LOST_IS_ARCHIVED
       volume_lost = 0;
#else
       volume_lost = (fresh -> live != NO && !sees_volume : volume_lost && live != NO && !sees_volume);
#endif
       archive_lost = (fresh -> live == NO && archive_key != NO && !sees_archive : archive_lost);
#endif
       same_look[1 - me] = 0;
#if MONITORS > 1
       assert(!overtaken[me]);                         /* no look is written over a later one */
       overtaken[1 - me] = overtaken[1 - me] || older[1 - me];
#endif
       claims_are_true()
    fi;
#if MONITORS > 1
    looked[me] = 0;
    older[me] = 0;
    overtaken[me] = 0;
#endif
    same_look[me] = 0;
    same_rev[me] = 0
  }
  goto idle;
blinded:
  atomic {
    if
    :: same_look[me] ->
#ifdef FAILED_LOOK_IS_ABSENCE
       sees_volume = 0;
       fresh = same_rev[me];
       volume_lost = (fresh && live != NO);
#else
       stale = 1;
#endif
       same_look[1 - me] = 0;
       claims_are_true()
    :: else
    fi;
    same_look[me] = 0;
    same_rev[me] = 0
  }
  goto idle
}

/* The owner, who writes and wants. */
proctype Owner() {
end_content:
  do
  :: d_step {
       writes > 0 && container == RUNS && volume[mounts] && volume_row[mounts] != LOST ->
       writes--;
       newest++;
       home[mounts] = newest
     }
  :: d_step { flips > 0 && !delete_requested && desired != ARCHIVED -> flips--; desired = ARCHIVED }
  :: d_step { flips > 0 && !delete_requested && desired != STANDBY -> flips--; desired = STANDBY }
  :: d_step { flips > 0 && !delete_requested && desired != RUNNING -> flips--; desired = RUNNING }
#if RECOVERS > 0
  :: d_step { recovers > 0 && request == 0 && error == TERMINAL -> recovers--; request = 1 }
  :: d_step { recovers > 0 && request == 0 && volume_lost && operation == NONE -> recovers--; request = 2 }
  :: d_step { recovers > 0 && request == 0 && volume_lost && operation == NONE && MAY_RESTORE(0) -> recovers--; request = 3 }
  :: d_step { recovers > 0 && request == 0 && volume_lost && operation == NONE && MAY_RESTORE(1) -> recovers--; request = 4 }
#endif
#if DELETES > 0
  :: d_step { deletes > 0 && !delete_requested -> deletes--; delete_requested = 1; desired = DELETED }
  :: d_step { undeletes > 0 && delete_requested && !purged -> undeletes--; delete_requested = 0; desired = ARCHIVED; deleted = 0; RAISE_REV }
#endif
  od
}

#define LEFT(v) (!volume[v] && (volume_row[v] == LIVE || volume_row[v] == LOST))

/* Time, and what breaks. */
proctype World() {
  byte v;

end_whole:
  do
#if NAMES_FREED > 0
  :: d_step { names_freed > 0 && container == PLACEHOLDER -> names_freed--; free_the_name() }
#endif
  :: d_step { exits > 0 && container == RUNS -> exits--; container = EXITED }
  :: atomic { container == EXITED && volume[mounts] -> begin_to_run(mounts) }
  :: d_step {
       volumes_lost > 0 && live != NO && volume[live] ->
       volumes_lost--;
       volume[live] = 0;
       excused = excused || !IS_KEPT
     }
#if RETURNS > 0
  :: d_step { returns > 0 && LEFT(0) -> returns--; volume[0] = 1; excused = excused && !IS_KEPT }
  :: d_step { returns > 0 && LEFT(1) -> returns--; volume[1] = 1; excused = excused && !IS_KEPT }
#endif
  od
}

/* The jobs that delete ask the rows alone: orphans, GC in two steps (it is said, then done), names. */
#define IS_DEAD(v) (volume[v] && v != op_volume && (volume_row[v] == DOOMED || volume_row[v] == GONE) && !IN_USE(v) && \
                    DELETABLE(v, dead_epoch[v]))
#ifdef GC_BY_AGE
#define IS_OLD(k) (archive_row[k] >= UPLOADING && archive_row[k] <= SUPERSEDED && k != archive_key && k != op_archive && !error)
#else
#ifdef NO_PIN
#define IS_OLD(k) (archive_row[k] == SUPERSEDED)
#else
#define IS_OLD(k) (archive_row[k] == SUPERSEDED && k != archive_key)
#endif
#endif
#define IS_ERASED(k) (archive_row[k] == ERASED && object[k])

inline collect_volume(v) { volume[v] = 0; home[v] = 0; volume_row[v] = GONE; LAW }
inline collect_object(k) { object[k] = 0; kept[k] = 0; LAW }

/* What its owner wanted gone is no loss. */
inline purge() {
  purged = 1;
  i = 0;
  do
  :: i < ARCHIVES -> archive_row[i] = (archive_row[i] == ABSENT -> ABSENT : ERASED); i++
  :: i == ARCHIVES -> break
  od;
  i = 0;
  archive_key = NO;
  newest = (delete_requested -> 0 : newest);
  LAW
}

proctype Jobs() {
  byte i;
#ifdef PURGES_UNASKED
  bit due;
#endif

end_clean:
  do
  :: d_step { IS_DEAD(0) -> collect_volume(0) }
  :: d_step { IS_DEAD(1) -> collect_volume(1) }
#if VOLUMES > 2
  :: d_step { IS_DEAD(2) -> collect_volume(2) }
#endif
#if VOLUMES > 3
  :: d_step { IS_DEAD(3) -> collect_volume(3) }
#endif
  :: d_step { IS_OLD(0) -> archive_row[0] = ERASED }
  :: d_step { IS_OLD(1) -> archive_row[1] = ERASED }
#if ARCHIVES > 2
  :: d_step { IS_OLD(2) -> archive_row[2] = ERASED }
#endif
  :: d_step { IS_ERASED(0) -> collect_object(0) }
  :: d_step { IS_ERASED(1) -> collect_object(1) }
#if ARCHIVES > 2
  :: d_step { IS_ERASED(2) -> collect_object(2) }
#endif
#if DELETES > 0
#ifdef PURGES_UNASKED
  :: atomic { deleted && !due && !purged -> due = 1 }
  :: d_step { due && !purged -> purge() }
#else
  :: d_step { deleted && !purged -> purge() }          /* asked in the transaction that says so */
#endif
#endif
  :: d_step { container == PLACEHOLDER && !of_this_op && NAME_MAY_BE_FREED -> free_the_name() }
  od
}

#define IN_ERROR (error || volume_lost || archive_lost)
#define ACCOUNTED_VOLUME(v) (!volume[v] || v == live || volume_row[v] == LOST || (IN_ERROR && epoch[v] != dead_epoch[v]) || \
                             (rolled_back && volume_row[v] == ABSENT))
#define ACCOUNTED_OBJECT(k) (!object[k] || archive_row[k] == UPLOADING || archive_row[k] == VERIFIED || \
                             (archive_row[k] == SUPERSEDED && k == archive_key) || (rolled_back && archive_row[k] == ABSENT))

/* Nothing can move any more, and nobody asks for anything. */
proctype Judge() {
  timeout ->
  assert(operation == NONE);
  assert(IN_ERROR || deleted || LEVEL == desired || (LEVEL == PENDING && desired <= ARCHIVED));
  assert(IS_KEPT || IN_ERROR);
#ifndef NO_FENCE
  assert(container == NOTHING || IN_ERROR || rolled_back || (container == RUNS && mounts == live && desired == RUNNING));
  assert(container != PLACEHOLDER || (rolled_back && IN_ERROR));
#endif
  assert(ACCOUNTED_VOLUME(0) && ACCOUNTED_VOLUME(1));
#if VOLUMES > 2
  assert(ACCOUNTED_VOLUME(2));
#endif
#if VOLUMES > 3
  assert(ACCOUNTED_VOLUME(3));
#endif
  assert(ACCOUNTED_OBJECT(0) && ACCOUNTED_OBJECT(1));
#if ARCHIVES > 2
  assert(ACCOUNTED_OBJECT(2));
#endif
}

#ifdef LIVENESS
#define UP (sees_container && sees_volume)
#define SETTLED (operation == NONE && (IN_ERROR || deleted || (UP && desired == RUNNING) || \
                 (!UP && live != NO && desired == STANDBY) || (!UP && live == NO && desired <= ARCHIVED)))
ltl every_workspace_settles { <> [] SETTLED }
#endif

init {
  atomic {
    container = RUNS;
    mounts = 0;
    volume[0] = 1;
    used[0] = 1;
    volume_row[0] = LIVE;
    live = 0;
    newest = 1;
    home[0] = 1;
    epoch[0] = 1;
    sees_container = 1;
    sees_name = 1;
    sees_volume = 1;
    fresh = 1;
    run Reconciler();
    run Zombie();
    run Monitor(0);
#if MONITORS > 1
    run Monitor(1);
#endif
    run Owner();
    run World();
    run Jobs();
#ifndef LIVENESS
    run Judge()
#endif
  }
}
