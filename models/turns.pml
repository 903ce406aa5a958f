/* Whose run starts next: three runs in the line, two of them of one concurrency key, which has one at work at a time
   (runs/turns.py, runs/worker/starting.py, runs/submit/next_of_key.py, reaper/requeuer.py).

   A message stands for one start, of whose turn it is, and not for its own run's. Money, leases and claims are
   in life.pml: here a run is at work, and then it has ended. What Postgres does under the key's lock is steps between
   taking it and giving it back; each other statement, and a request to the queue, is one step. */

#define RUNS 3
#define NONE 3
#ifndef KEYED
#define KEYED 2
#endif
#define OF_KEY(r) ((r) < KEYED)

#define WAITING 1
#define PARKED 2
#define AT_WORK 3
#define ENDED 4

#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef LOST
#define LOST 1
#endif
#ifndef CANCELS
#define CANCELS 1
#endif

byte stands[RUNS];
bit left_alone[RUNS];          /* its worker died */
byte starts[RUNS];
byte at_work;                  /* of the key */
byte messages;                 /* in the queue */
bit locked;                    /* the key */
byte crashes = CRASHES;
byte lost = LOST;
byte cancels = CANCELS;

#define FIRST(where) (stands[0] == where -> 0 : (stands[1] == where -> 1 : (stands[2] == where -> 2 : NONE)))

inline start(r) {
  d_step {
    stands[r] = AT_WORK;
    starts[r]++;
    assert(starts[r] == 1);                              /* no run is started twice */
    if
    :: OF_KEY(r) -> at_work++
    :: else
    fi;
    assert(at_work <= 1)                                 /* the key keeps to its limit */
  }
}

/* Who ends a run: its worker, the reaper, its owner. */
inline ended(r) {
  d_step {
    if
    :: stands[r] == AT_WORK && OF_KEY(r) -> at_work--
    :: else
    fi;
    stands[r] = ENDED;
    left_alone[r] = 0
  }
}

#define DIES :: crashes > 0 -> crashes--; goto died

/* Look, put back, send. A death in between leaves what it has done. */
#ifdef LOOKS_UNLOCKED
#define MAY_LOOK true
#else
#define MAY_LOOK !locked
#endif

inline wake() {
  atomic { MAY_LOOK -> next = (at_work == 0 -> FIRST(PARKED) : NONE) }
  if
  :: next == NONE
  :: else ->
     atomic {
       if
       DIES
       :: !locked ->
          if
          :: at_work == 0 && stands[next] == PARKED -> stands[next] = WAITING
          :: else -> next = NONE
          fi
       fi
     }
     if
     :: next == NONE
     :: else ->
        atomic {
          if
          DIES
#ifdef WAKES_SILENTLY
          :: true
#else
          :: messages++
#endif
          fi
        }
     fi
  fi;
  next = NONE
}

proctype Worker() {
  byte mine = NONE, next = NONE;
  bit room;

idle:
  atomic { mine = NONE; next = NONE; room = 0 }
end_no_message:
  atomic { messages > 0 -> messages-- };
choose:
  atomic {
    if
    DIES
    :: stands[0] == WAITING -> mine = 0                    /* by number, priority and pack: any may be the first */
    :: stands[1] == WAITING -> mine = 1
    :: stands[2] == WAITING -> mine = 2
    :: FIRST(WAITING) == NONE -> goto idle                /* acknowledged: one too many */
    fi;
    if
    :: OF_KEY(mine)
    :: else -> goto begin
    fi
  }
  atomic {
#ifndef NO_LOCK
    !locked -> locked = 1;
#endif
    room = (at_work == 0)
  }
  atomic {
    if
    :: crashes > 0 -> crashes--; locked = 0; goto died
    :: room
    :: !room ->
       d_step {
         stands[0] = (stands[0] == WAITING -> PARKED : stands[0]);
         stands[1] = (stands[1] == WAITING -> PARKED : stands[1]);
         stands[2] = (stands[2] == WAITING && OF_KEY(2) -> PARKED : stands[2]);
         locked = 0
       }
#ifdef PARKED_TAKES_THE_PERMIT
       goto idle
#else
       goto choose
#endif
    fi
  }
begin:
  atomic {
    if
    :: stands[mine] == WAITING -> start(mine); locked = (OF_KEY(mine) -> 0 : locked)
    :: else ->
       locked = (OF_KEY(mine) -> 0 : locked);
#ifdef LOSER_ACKNOWLEDGES
       goto idle
#else
       goto choose
#endif
    fi
  }
  atomic {
    if
    :: crashes > 0 -> crashes--; left_alone[mine] = (stands[mine] == AT_WORK); goto died
    :: stands[mine] == AT_WORK -> ended(mine)
    :: else                                              /* its owner has ended it */
    fi
  }
#ifndef END_WAKES_NOBODY
  if
  :: OF_KEY(mine) -> wake()
  :: else
  fi;
#endif
  goto idle;
died:
  messages++;                                            /* it is seen again */
  goto idle
}

proctype Owner(byte mine) {
  byte next = NONE;

  if
  :: cancels = 0; goto died                              /* content */
  :: true
  fi;
end_not_yet:
  atomic {
    cancels > 0 && (stands[mine] == WAITING || stands[mine] == PARKED || stands[mine] == AT_WORK) ->
    cancels--;
    ended(mine)
  }
#ifndef CANCEL_WAKES_NOBODY
  if
  :: OF_KEY(mine) -> wake()
  :: else
  fi;
#endif
died:
  skip
}

proctype Reaper() {
end_all_alive:
  do
  :: atomic { left_alone[0] -> ended(0) }
  :: atomic { left_alone[1] -> ended(1) }
  :: atomic { left_alone[2] -> ended(2) }
  od
}

/* DPP-43. It may send while the message is merely with a worker. */
proctype Requeuer() {
  byte next = NONE;

idle:
  next = NONE;
end_nothing_due:
  if
  :: atomic {
       messages == 0 && FIRST(WAITING) != NONE ->
       if
       DIES
       :: messages++
       fi
     }
#ifndef WAKES_NO_KEYS
  :: at_work == 0 && FIRST(PARKED) != NONE -> wake()
#endif
  fi;
died:
  goto idle
}

proctype World() {
end_world:
  do
  :: d_step { messages > 0 && lost > 0 -> lost--; messages-- }
  od
}

/* Nobody can move any more. */
proctype Judge() {
  timeout ->
  assert(stands[0] == ENDED && stands[1] == ENDED && stands[2] == ENDED);      /* none is stranded */
  assert(at_work == 0 && !locked)
}

init {
  atomic {
    stands[0] = WAITING;
    stands[1] = WAITING;
    stands[2] = WAITING;
    messages = RUNS;                                     /* a submit that died before it sent: one of them is lost */
    run Worker();
    run Worker();
    run Owner(1);
    run Reaper();
#ifndef NO_REQUEUER
    run Requeuer();
#endif
    run World();
    run Judge()
  }
}
