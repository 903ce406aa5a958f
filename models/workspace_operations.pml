/* The reconciler, step by step, and what its losers still had on the way. */

/* ops/workspaces/host/reconciler.py */

#define IS_FILLING ((operation == RESTORE || operation == PROVISION) && step == FILLS)
#ifdef LOSER_COMMITS
#define LATE_COMMIT (IS_FILLING && did == 3 -> Z_MARK : 0)
#else
#define LATE_COMMIT 0
#endif

#ifdef LOST_IS_ARCHIVED
#define HAS_VOLUME (live != NO && sees_volume)
#else
#define HAS_VOLUME (live != NO)
#endif
#define LEVEL (sees_container && sees_volume -> RUNNING : (HAS_VOLUME -> STANDBY : (archive_key != NO -> ARCHIVED : PENDING)))
#ifdef NO_FENCE
#define SEES_NAME sees_container
#else
#define SEES_NAME sees_name
#endif
#define WELL (!error && !volume_lost && !archive_lost && !deleted)
#define MAY_RESTORE(k) (archive_row[k] != ERASED && archive_row[k] != ABSENT && object[k] && kept[k] != HALF)
#ifdef NO_FENCE
#define NAME_IS_HELD (!sees_container)
#else
#ifdef NO_PLACEHOLDER
#define NAME_IS_HELD (!sees_container)
#else
#define NAME_IS_HELD sees_holder
#endif
#endif
/* A container of a volume that no row knows. */
#define STRANGER (mounts != NO && volume_row[mounts] == ABSENT)
#define MAY_BEGIN (operation == NONE && WELL && fresh && !stale && request == 0)

inline supersede_others() {
  i = 0;
  do
  :: i < ARCHIVES ->
     if
     :: i != op_archive && (archive_row[i] == UPLOADING || archive_row[i] == VERIFIED) -> archive_row[i] = SUPERSEDED
     :: else
     fi;
     i++
  :: i == ARCHIVES -> break
  od;
  i = 0
}

/* The verb that would come next, if any, in slot z. */
inline float(z) {
  z_verb[z] = (operation == START && step == ACTS -> Z_START :
              (operation == STOP && step == ACTS -> Z_REMOVE :
              (operation == ARCHIVE && (step == REMOVES || step == ENDS) -> Z_REMOVE :
              (operation == ARCHIVE && step == HOLDS_NAME -> Z_PLACE :
              (operation == ARCHIVE && step == UPLOADS && did == 1 -> Z_UPLOAD :
              (operation == ARCHIVE && step == DELETES_VOLUME && did == 0 -> Z_DELETE :
              (IS_FILLING && did == 0 -> Z_CREATE :
              (IS_FILLING && did < 3 -> Z_IMPORT : LATE_COMMIT))))))));
  if
  :: z_verb[z] ->
     z_volume[z] = (operation == START -> live : op_volume);
     z_archive[z] = (operation == RESTORE -> archive_key : op_archive);
     z_content[z] = held;
     z_epoch[z] = (operation == ARCHIVE && step == DELETES_VOLUME -> dead_epoch[op_volume] : held_epoch);
     z_id[z] = (container != NOTHING);
     z_op[z] = 1
  :: else
  fi
}

/* Whatever the one before has left, the next attempt fills a volume of its own. */
inline next_attempt() {
#ifdef VOLUME_PER_OPERATION
  skip
#else
  if
  :: IS_FILLING -> doom(op_volume); op_volume = NO; step = LISTS
  :: else
  fi
#endif
}

/* A late start may name a volume that is doomed: until it is gone, the name stays taken. */
#ifdef FREES_THE_NAME_EARLY
#define IS_DOOMED(v) false
#else
#define IS_DOOMED(v) (volume[v] && volume_row[v] == DOOMED)
#endif
#if VOLUMES == 2
#define NAME_MAY_BE_FREED (!IS_DOOMED(0) && !IS_DOOMED(1))
#elif VOLUMES == 3
#define NAME_MAY_BE_FREED (!IS_DOOMED(0) && !IS_DOOMED(1) && !IS_DOOMED(2))
#elif VOLUMES == 4
#define NAME_MAY_BE_FREED (!IS_DOOMED(0) && !IS_DOOMED(1) && !IS_DOOMED(2) && !IS_DOOMED(3))
#endif

/* A volume that an attempt did not end is nobody's. */
inline leave_behind() {
  if
  :: IS_FILLING ->
#ifdef STARTS_WITHOUT_MARKER
     live = op_volume;
     volume_row[op_volume] = LIVE
#else
     doom(op_volume)
#endif
  :: else
  fi
}

proctype Reconciler() {
  byte did, held, held_epoch, i;
  bit unknown;

end_level:
  do
  /* plan: one level at a time */
  :: atomic { MAY_BEGIN && LEVEL == RUNNING && desired < RUNNING -> begin(STOP) }
  :: atomic { MAY_BEGIN && LEVEL == STANDBY && desired == RUNNING -> begin(START) }
  :: atomic { MAY_BEGIN && LEVEL == STANDBY && desired < RUNNING && SEES_NAME -> begin(STOP) }
  :: atomic {
       MAY_BEGIN && LEVEL == STANDBY && desired < STANDBY && !SEES_NAME ->
       begin(ARCHIVE);
       op_volume = live;
#ifdef REUSES_THE_OP_ID
       i = 0;
       do
       :: i < ARCHIVES && archive_row[i] == UPLOADING -> op_archive = i; break
       :: i < ARCHIVES && archive_row[i] != UPLOADING -> i++
       :: i == ARCHIVES -> name_archive(); break
       od;
       i = 0
#else
       name_archive()
#endif
     }
  :: atomic { MAY_BEGIN && LEVEL <= ARCHIVED && SEES_NAME -> begin(STOP) }
  :: atomic { MAY_BEGIN && LEVEL == ARCHIVED && desired >= STANDBY && !SEES_NAME -> begin(RESTORE) }
  :: atomic { MAY_BEGIN && LEVEL == PENDING && desired >= STANDBY && !SEES_NAME -> begin(PROVISION) }
  :: atomic { MAY_BEGIN && LEVEL <= ARCHIVED && desired == DELETED && !SEES_NAME -> deleted = 1 }
  /* recover: what was asked for is looked at again */
  :: atomic {
       request && operation == NONE && fresh && !stale ->
#ifndef RECOVERS_UNLISTED
       look_for_unknown();
#endif
       if
       :: unknown -> error = BEHIND
       :: !unknown && request == 1 -> error = 0
       :: !unknown && request > 1 && !volume_lost
       :: !unknown && request > 1 && volume_lost && request > 2 && MAY_RESTORE(request - 3) ->
          archive_key = request - 3;
          newest = kept[archive_key];
          excused = 0;
          volume_row[live] = LOST;
          live = NO
       :: !unknown && request > 1 && volume_lost && request > 2 && !MAY_RESTORE(request - 3)
       :: !unknown && request == 2 && volume_lost ->
          archive_key = NO;
          newest = 0;
          excused = 0;
          volume_row[live] = LOST;
          live = NO
       fi;
       unknown = 0;
       request = 0;
       RAISE_REV
     }

  /* PROVISION and RESTORE */
  :: atomic {
       (operation == PROVISION || operation == RESTORE) && step == LISTS ->
       look_for_unknown();
       if
#ifndef NO_LISTING
       :: unknown -> error = BEHIND; end_operation(); RAISE_REV
       :: !unknown -> name_volume(); step = FILLS
#else
       :: true -> name_volume(); step = FILLS
#endif
       fi;
       unknown = 0
     }
  :: atomic {
       IS_FILLING && did == 0 ->
       if
       :: !volume[op_volume] -> volume[op_volume] = 1; home[op_volume] = 0
       :: else
       fi;
       did = (operation == PROVISION -> 3 : 1)
     }
  :: atomic {
       operation == RESTORE && step == FILLS && did == 1 && volume[op_volume] && object[archive_key] ->
       home[op_volume] = HALF;
       did = 2
     }
  :: atomic {
       operation == RESTORE && step == FILLS && did == 2 && volume[op_volume] && object[archive_key] ->
       home[op_volume] = kept[archive_key];
       did = 3
     }
  :: atomic {
       IS_FILLING && did == 3 ->
       live = op_volume;
       volume_row[live] = LIVE;
       step = FILLED;
       did = 0;
       RAISE_REV
     }
  :: atomic {
       (operation == PROVISION || operation == RESTORE) && step == FILLED && fresh && !stale && sees_volume ->
       end_operation()
     }

  /* START and STOP */
  :: atomic {
       operation == START && step == ACTS && volume[live] && !(container == RUNS && mounts == live) && NAME_MAY_BE_FREED && !STRANGER ->
       if
       :: container != NOTHING -> free_the_name()
       :: else -> begin_to_run(live); step = ACTED; RAISE_REV
       fi
     }
  :: atomic { operation == START && step == ACTS && container == RUNS && mounts == live -> step = ACTED; RAISE_REV }
  :: atomic {
       operation == START && step == ACTED && fresh && !stale ->
       if
       :: sees_container -> end_operation()
       :: else -> step = ACTS
       fi
     }
  :: atomic {
       operation == STOP && step == ACTS && (container != PLACEHOLDER || NAME_MAY_BE_FREED) && !STRANGER ->
#ifdef NO_FENCE
       container = (container == RUNS -> EXITED : container);
#else
       free_the_name();
#endif
       step = ACTED;
       RAISE_REV
     }
  :: atomic {
       operation == STOP && step == ACTED && fresh && !stale ->
       if
       :: !SEES_NAME -> end_operation()
       :: else -> step = ACTS
       fi
     }

  /* ARCHIVE: nothing may run, then the name is held, then it is read */
  :: atomic {
       operation == ARCHIVE && step == REMOVES && !STRANGER ->
#ifndef NO_FENCE
       if
       :: container != NOTHING && container != PLACEHOLDER -> free_the_name()
       :: container == PLACEHOLDER -> of_this_op = 1                /* as good as its own */
       :: else
       fi;
#endif
       step = HOLDS_NAME
     }
  :: atomic {
       operation == ARCHIVE && step == HOLDS_NAME ->
#ifdef NO_FENCE
       step = UPLOADS;
#else
#ifdef NO_PLACEHOLDER
       step = UPLOADS;
#else
       if
       :: container == NOTHING -> container = PLACEHOLDER; of_this_op = 1; step = UPLOADS
       :: container == PLACEHOLDER && of_this_op -> step = UPLOADS
       :: else -> step = REMOVES
       fi;
#endif
#endif
       RAISE_REV
     }
  :: atomic {
       operation == ARCHIVE && step == UPLOADS && did == 0 && (object[op_archive] || volume[op_volume]) ->
       if
#ifdef ANY_KEY_IS_PROOF
       :: archive_key != NO -> step = DOOMS
#endif
       :: object[op_archive] && SAME_EPOCH -> step = VERIFIES  /* an attempt before this one, or its zombie */
       :: object[op_archive] && !SAME_EPOCH -> end_operation(); RAISE_REV
       :: !object[op_archive] -> held = home[op_volume]; held_epoch = epoch[op_volume]; did = 1
       fi
     }
  :: atomic {
       operation == ARCHIVE && step == UPLOADS && did == 1 ->
       if
       :: object[op_archive]                                   /* 412: it is looked at again */
       :: !object[op_archive] -> object[op_archive] = 1; kept[op_archive] = held; kept_epoch[op_archive] = held_epoch
       :: !object[op_archive] && corrupts > 0 ->
          corrupts--;
          object[op_archive] = 1;
          kept[op_archive] = HALF;
          kept_epoch[op_archive] = held_epoch
       fi;
       excused = excused && !IS_KEPT;
       did = 0;
       held = 0;
       held_epoch = 0
     }
  :: atomic {
       operation == ARCHIVE && step == VERIFIES ->
       if
#ifndef NO_VERIFY
#ifdef RETRIES_WHAT_IS_CORRUPT
       :: !object[op_archive] || kept[op_archive] == HALF -> step = UPLOADS
#else
       :: !object[op_archive] || kept[op_archive] == HALF -> end_operation(); RAISE_REV       /* Corrupt: the next one has its own op_id */
#endif
       :: object[op_archive] && kept[op_archive] != HALF -> archive_row[op_archive] = VERIFIED; step = SAVES_KEY
#else
       :: true -> archive_row[op_archive] = VERIFIED; step = SAVES_KEY
#endif
       fi
     }
  :: atomic {
       operation == ARCHIVE && step == SAVES_KEY ->
       archive_key = op_archive;
       supersede_others();
       step = DOOMS;
       LAW;
       RAISE_REV
     }
  :: atomic {
       operation == ARCHIVE && step == DOOMS && fresh && !stale && sees_archive && NAME_IS_HELD && SAME_EPOCH ->
       dead_epoch[op_volume] = kept_epoch[op_archive];
#ifndef NO_DOOM
       volume_row[op_volume] = DOOMED;
       live = NO;
       LAW;
       RAISE_REV;
#endif
       step = DELETES_VOLUME
     }
  :: atomic {
       operation == ARCHIVE && step == DELETES_VOLUME && did == 0 && !IN_USE(op_volume) && DELETABLE(op_volume, dead_epoch[op_volume]) ->
       volume[op_volume] = 0;
       home[op_volume] = 0;
       LAW;
       did = 1
     }
  :: atomic {
       operation == ARCHIVE && step == DELETES_VOLUME && did == 1 ->
       volume_row[op_volume] = GONE;
       live = NO;
       did = 0;
       step = ENDS;
       RAISE_REV
     }
  :: atomic {
       operation == ARCHIVE && step == DELETES_VOLUME && did == 0 && (IN_USE(op_volume) || !DELETABLE(op_volume, dead_epoch[op_volume])) ->
       live = op_volume;                                       /* somebody freed the name: a person looks */
       volume_row[live] = LIVE;
       end_operation();
       error = TERMINAL;
       RAISE_REV
     }
  :: atomic {
       operation == ARCHIVE && step == ENDS && of_this_op ->
       free_the_name();
       RAISE_REV
     }
  :: atomic {
       operation == ARCHIVE && step == ENDS && !of_this_op && fresh && !stale && sees_archive && !sees_volume ->
       end_operation()
     }
  :: atomic {                                          /* somebody freed the name, and it ran */
       operation == ARCHIVE && step == DOOMS && fresh && !stale && (!NAME_IS_HELD || !SAME_EPOCH) ->
       end_operation();
       RAISE_REV
     }
  /* wanted up again, at any boundary of its steps before the volume is doomed */
#ifdef ABANDONS_ANYWHERE
  :: atomic { operation == ARCHIVE && desired >= STANDBY && step < ENDS ->
       volume_row[op_volume] = (volume_row[op_volume] == GONE -> GONE : LIVE);
       live = op_volume;
#else
#ifdef NO_DOOM
  :: atomic { operation == ARCHIVE && desired >= STANDBY && step <= DELETES_VOLUME ->
#else
  :: atomic { operation == ARCHIVE && desired >= STANDBY && step <= DOOMS ->
#endif
#endif
       if
       :: of_this_op -> free_the_name()
       :: else
       fi;
       end_operation();
       RAISE_REV
     }

  /* An attempt is given up: what it was about to do comes later, or never. */
  :: atomic {
       operation != NONE && takeovers > 0 ->
       takeovers--;
       if
       :: z_verb[0] == 0 -> float(0)
#if ZOMBIES > 1
       :: z_verb[0] && z_verb[1] == 0 -> float(1)
#endif
       :: true
       fi;
       did = 0;
       held = 0;
       held_epoch = 0;
       next_attempt()
     }
  /* It has failed ten times. */
  :: atomic {
       operation != NONE && failures > 0 ->
       failures--;
       if
       :: z_verb[0] == 0 -> float(0)
       :: true
       fi;
       leave_behind();
       end_operation();
       error = TERMINAL;
       RAISE_REV
     }
  :: atomic {
       (ANY_OUTLIVED || (operation != NONE && STRANGER)) && !error ->
       leave_behind();
       end_operation();
       error = BEHIND;
       RAISE_REV
     }
#if PASTS > 0
  :: atomic {                                          /* what the copy says was kept is gone */
       operation == ARCHIVE && (step == DOOMS || step == ENDS) && fresh && !stale && !sees_archive ->
       end_operation();
       error = BEHIND;
       RAISE_REV
     }
  :: d_step { pasts > 0 && !copied -> copy() }
  :: d_step { pasts > 0 && copied -> pasts--; put_back(); next_attempt(); LAW }
#endif
  /* What it works on is not there: refused, ten times. */
  :: atomic {
       (operation == START && step == ACTS && !volume[live]) ||
       (operation == RESTORE && step == FILLS && (did == 1 || did == 2) && !(volume[op_volume] && object[archive_key])) ||
       ((operation == RESTORE || operation == PROVISION) && step == FILLED && fresh && !stale && !sees_volume) ||
       (operation == ARCHIVE && step == UPLOADS && did == 0 && !object[op_archive] && !volume[op_volume]) ->
       leave_behind();
       end_operation();
       error = TERMINAL;
       RAISE_REV
     }
  od
}

inline land(z) {
  if
  :: z_verb[z] == Z_START && container == NOTHING && volume[z_volume[z]] -> begin_to_run(z_volume[z])
#ifdef REMOVES_BY_NAME
  :: z_verb[z] == Z_REMOVE && container != NOTHING -> assert(z_id[z]); free_the_name()   /* it was meant */
#else
  :: z_verb[z] == Z_REMOVE && z_id[z] -> free_the_name()
#endif
  :: z_verb[z] == Z_PLACE && container == NOTHING -> container = PLACEHOLDER; of_this_op = z_op[z]
  :: z_verb[z] == Z_UPLOAD && !object[z_archive[z]] -> object[z_archive[z]] = 1; kept[z_archive[z]] = z_content[z]; kept_epoch[z_archive[z]] = z_epoch[z]; excused = excused && !IS_KEPT
  :: z_verb[z] == Z_DELETE && !IN_USE(z_volume[z]) && DELETABLE(z_volume[z], z_epoch[z]) -> volume[z_volume[z]] = 0; home[z_volume[z]] = 0
  :: z_verb[z] == Z_CREATE && !volume[z_volume[z]] -> volume[z_volume[z]] = 1; home[z_volume[z]] = 0
  :: z_verb[z] == Z_IMPORT && volume[z_volume[z]] -> home[z_volume[z]] = HALF
  :: z_verb[z] == Z_IMPORT && volume[z_volume[z]] && object[z_archive[z]] -> home[z_volume[z]] = kept[z_archive[z]]
#ifdef LOSER_COMMITS
  :: z_verb[z] == Z_MARK -> live = z_volume[z]; volume_row[live] = LIVE; RAISE_REV
#endif
  :: else
  fi;
  z_verb[z] = 0;
  z_volume[z] = NO;
  z_archive[z] = NO;
  z_content[z] = 0;
  z_epoch[z] = 0;
  z_id[z] = 0;
  z_op[z] = 0;
  assert(container != RUNS || home[mounts] == newest || !volume[mounts] || volume_row[mounts] == LOST);
  LAW
}

proctype Zombie() {
end_no_zombie:
  do
  :: atomic { z_verb[0] -> land(0) }
#if ZOMBIES > 1
  :: atomic { z_verb[1] -> land(1) }
#endif
  od
}
