/* What is there, what the row says of it, and what must hold between them. */

#define NO 7

/* phases and desired states, by their level */
#define DELETED 0
#define PENDING 1
#define ARCHIVED 2
#define STANDBY 3
#define RUNNING 4

/* operation */
#define NONE 0
#define PROVISION 1
#define RESTORE 2
#define START 3
#define STOP 4
#define ARCHIVE 5

/* steps of PROVISION and RESTORE, of START and STOP, and of ARCHIVE */
#define LISTS 0
#define FILLS 1
#define FILLED 2
#define ACTS 0
#define ACTED 1
#define REMOVES 0
#define HOLDS_NAME 1
#define UPLOADS 2
#define VERIFIES 3
#define SAVES_KEY 4
#define DOOMS 5
#define DELETES_VOLUME 6
#define ENDS 7

/* workspace_volumes.state; workspace_archives.state */
#define ABSENT 0
#define FILLING 1
#define LIVE 2
#define DOOMED 3
#define GONE 4
#define LOST 5
#define UPLOADING 1
#define VERIFIED 2
#define SUPERSEDED 3
#define ERASED 4

/* error_info */
#define TERMINAL 1
#define BEHIND 2

/* what holds the name ws-{id} */
#define NOTHING 0
#define PLACEHOLDER 1
#define EXITED 2
#define RUNS 3

/* contents: 0 is empty, then the versions that the user has written and synced */
#define HALF 6

#ifndef VOLUMES
#define VOLUMES 3
#endif
#ifndef ARCHIVES
#define ARCHIVES 3
#endif
#ifndef MONITORS
#define MONITORS 1
#endif
#ifndef ZOMBIES                /* verbs that may be under way at once for operations or attempts that are over */
#define ZOMBIES 1
#endif
#ifndef TAKEOVERS
#define TAKEOVERS 1
#endif
#ifndef WRITES
#define WRITES 1
#endif
#ifndef FLIPS                  /* of desired_state */
#define FLIPS 2
#endif
#ifndef EXITS                  /* of a container; its runtime may start it again */
#define EXITS 0
#endif
#ifndef FAILURES               /* an operation ends in terminal ERROR */
#define FAILURES 0
#endif
#ifndef CORRUPTS               /* an upload of which S3 keeps something else */
#define CORRUPTS 0
#endif
#ifndef VOLUMES_LOST
#define VOLUMES_LOST 0
#endif
#ifndef RETURNS                /* a lost volume is there again */
#define RETURNS 0
#endif
#ifndef BLIND                  /* probes that fail */
#define BLIND 0
#endif
#ifndef RECOVERS               /* requests of an operator */
#define RECOVERS 0
#endif
#ifndef DELETES                /* DELETE by its owner */
#define DELETES 0
#endif
#ifndef UNDELETES
#define UNDELETES 0
#endif
#ifndef NAMES_FREED            /* somebody removes a placeholder by hand */
#define NAMES_FREED 0
#endif
#ifndef PASTS                  /* the database is put back to what it was before */
#define PASTS 0
#endif

byte takeovers = TAKEOVERS;
byte writes = WRITES;
byte flips = FLIPS;
byte exits = EXITS;
byte failures = FAILURES;
byte corrupts = CORRUPTS;
byte volumes_lost = VOLUMES_LOST;
byte returns = RETURNS;
byte blind = BLIND;
byte recovers = RECOVERS;
byte deletes = DELETES;
byte undeletes = UNDELETES;
byte names_freed = NAMES_FREED;
byte pasts = PASTS;

/* The world. */
bit volume[VOLUMES];           /* is there */
byte home[VOLUMES];            /* its content */
byte epoch[VOLUMES];           /* how often it was started */
bit used[VOLUMES];             /* this name was given once */
bit object[ARCHIVES];
byte kept[ARCHIVES];           /* its content */
byte kept_epoch[ARCHIVES];     /* and its volume's epoch, as it was read */
bit named[ARCHIVES];
byte container;
byte mounts = NO;
bit of_this_op;                /* the placeholder was put there by the operation that is under way */

byte newest;                   /* what the user has written and synced last */
bit excused;                   /* the only copy was lost by no doing of ours, and nobody has accepted it yet */
bit rolled_back;

/* The row: the API's columns. */
byte desired = RUNNING;
bit delete_requested;
byte request;                  /* recover_generation, not consumed: 0, 1 go on, 2 from=empty, 3 + k from=archive:k */
/* The reconciler's. */
byte operation;
byte step;
byte op_volume = NO;
byte op_archive = NO;
byte archive_key = NO;
byte live = NO;                /* home_ctx: a volume with its marker */
byte error;
bit deleted;
bit purged;                    /* its seven days are over */
byte volume_row[VOLUMES];
byte archive_row[ARCHIVES];
byte dead_epoch[VOLUMES];      /* a volume may be deleted at this epoch alone */
/* The monitor's. */
bit sees_container;            /* it runs, on the live volume */
bit sees_name;                 /* any container, also a placeholder */
bit sees_holder;               /* the placeholder of the operation under way */
bit sees_volume;
bit sees_archive;
bit volume_lost;               /* the phase is ERROR for it */
bit archive_lost;
bit stale;
bit fresh;                     /* observed_rev >= rev */

/* What a monitor has read is still so: rev; observed_at. */
bit same_rev[2];
bit same_look[2];
#if MONITORS > 1
bit looked[2];
bit older[2];                  /* another monitor looked later */
bit overtaken[2];              /* and has written what it saw */
#endif

/* Verbs on their way. */
#define Z_START 1
#define Z_REMOVE 2
#define Z_PLACE 3
#define Z_UPLOAD 4
#define Z_DELETE 5
#define Z_CREATE 6
#define Z_IMPORT 7
#define Z_MARK 8
byte z_verb[2];
byte z_volume[2] = NO;
byte z_archive[2] = NO;
byte z_content[2];
byte z_epoch[2];
bit z_id[2];                   /* the container that it means is the one that is there */
bit z_op[2];                   /* its operation is the one under way */

#ifdef NO_REV
#define RAISE_REV skip
#else
#define RAISE_REV fresh = 0; same_rev[0] = 0; same_rev[1] = 0
#endif

/* What a driver refuses to delete. One refuses more: also what a container mounts that does not run. */
#define IN_USE(v) (container == RUNS && mounts == v)

#define KEPT_IN_VOLUME(v) (volume[v] && home[v] == newest && volume_row[v] != GONE && (volume_row[v] != DOOMED || IN_USE(v) || epoch[v] != dead_epoch[v]))
#define KEPT_IN_ARCHIVE(k) (object[k] && kept[k] == newest && archive_row[k] != ERASED && \
                            (archive_row[k] != SUPERSEDED || k == archive_key))
#if VOLUMES == 2
#define IN_A_VOLUME (KEPT_IN_VOLUME(0) || KEPT_IN_VOLUME(1))
#elif VOLUMES == 3
#define IN_A_VOLUME (KEPT_IN_VOLUME(0) || KEPT_IN_VOLUME(1) || KEPT_IN_VOLUME(2))
#elif VOLUMES == 4
#define IN_A_VOLUME (KEPT_IN_VOLUME(0) || KEPT_IN_VOLUME(1) || KEPT_IN_VOLUME(2) || KEPT_IN_VOLUME(3))
#endif
#if ARCHIVES == 2
#define IN_AN_ARCHIVE (KEPT_IN_ARCHIVE(0) || KEPT_IN_ARCHIVE(1))
#elif ARCHIVES == 3
#define IN_AN_ARCHIVE (KEPT_IN_ARCHIVE(0) || KEPT_IN_ARCHIVE(1) || KEPT_IN_ARCHIVE(2))
#endif

/* The newest synced data stands where no job of ours may delete it. */
#define IS_KEPT (newest == 0 || IN_A_VOLUME || IN_AN_ARCHIVE)
#define LAW assert(excused || IS_KEPT)

/* Whoever runs sees what was written last. */
inline begin_to_run(v) {
  container = RUNS;
  mounts = v;
#ifndef NO_EPOCH
  epoch[v]++;
#endif
  assert(home[v] == newest || volume_row[v] == LOST)
}

inline free_the_name() {
  container = NOTHING;
  mounts = NO;
  of_this_op = 0;
  z_id[0] = 0;
  z_id[1] = 0
}

inline end_operation() {
  operation = NONE;
  step = 0;
  op_volume = NO;
  op_archive = NO;
  of_this_op = 0;
  z_op[0] = 0;
  z_op[1] = 0;
  did = 0;
  held = 0;
  held_epoch = 0
}

inline begin(what) {
  operation = what;
  step = 0;
  RAISE_REV
}

inline doom(v) {
  if
  :: v != NO -> volume_row[v] = DOOMED
  :: else
  fi
}

#define MEANT_BY_ZOMBIE_V(v) ((z_verb[0] && z_volume[0] == v) || (z_verb[1] && z_volume[1] == v))
#define MEANT_BY_ZOMBIE_K(k) ((z_verb[0] && z_archive[0] == k) || (z_verb[1] && z_archive[1] == k))
/* A name that nothing means any more stands for a new one: fewer states to tell apart. */
#define NEW_VOLUME(v) (!used[v] || (!PASTS && !volume[v] && volume_row[v] == GONE && !MEANT_BY_ZOMBIE_V(v)))
#define NEW_ARCHIVE(k) (!named[k] || (!PASTS && !object[k] && k != archive_key && archive_row[k] != VERIFIED && !MEANT_BY_ZOMBIE_K(k)))

inline name_volume() {
  i = 0;
  do
  :: i < VOLUMES && !NEW_VOLUME(i) -> i++
  :: i < VOLUMES && NEW_VOLUME(i) -> used[i] = 1; volume_row[i] = FILLING; dead_epoch[i] = 0; home[i] = 0; epoch[i] = 0; op_volume = i; break
  :: i == VOLUMES -> assert(false); break                         /* VOLUMES is too small for this case */
  od;
  i = 0
}

inline name_archive() {
  i = 0;
  do
  :: i < ARCHIVES && !NEW_ARCHIVE(i) -> i++
  :: i < ARCHIVES && NEW_ARCHIVE(i) -> named[i] = 1; archive_row[i] = UPLOADING; kept[i] = 0; kept_epoch[i] = 0; op_archive = i; break
  :: i == ARCHIVES -> assert(false); break                         /* ARCHIVES is too small for this case */
  od;
  i = 0
}

#ifdef NO_EPOCH
#define SAME_EPOCH true
#define DELETABLE(v, at) true
#else
#define SAME_EPOCH (!volume[op_volume] || kept_epoch[op_archive] == epoch[op_volume])
#define DELETABLE(v, at) (!volume[v] || epoch[v] == at)
#endif
/* Doomed, and started since: nobody deletes it, and a person is asked. */
#define OUTLIVED(v) (volume[v] && volume_row[v] == DOOMED && v != op_volume && !DELETABLE(v, dead_epoch[v]))
#if VOLUMES == 2
#define ANY_OUTLIVED (OUTLIVED(0) || OUTLIVED(1))
#elif VOLUMES == 3
#define ANY_OUTLIVED (OUTLIVED(0) || OUTLIVED(1) || OUTLIVED(2))
#elif VOLUMES == 4
#define ANY_OUTLIVED (OUTLIVED(0) || OUTLIVED(1) || OUTLIVED(2) || OUTLIVED(3))
#endif

/* Anything there that no row knows, or that has gone on since its row was written. */
inline look_for_unknown() {
  unknown = 0;
  i = 0;
  do
  :: i < VOLUMES -> unknown = unknown || (volume[i] && volume_row[i] == ABSENT) || OUTLIVED(i); i++
  :: i == VOLUMES -> break
  od;
  i = 0;
  do
  :: i < ARCHIVES -> unknown = unknown || (object[i] && archive_row[i] == ABSENT); i++
  :: i == ARCHIVES -> break
  od;
  i = 0
}
