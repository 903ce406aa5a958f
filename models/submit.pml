/* One Idempotency-Key, two clients that send it at once and again, and all that may come of it (DPP-04 to DPP-09).

   The lock may lapse under its holder at any moment. Money is short until a top-up comes. A run is only started here, not
   ended: life.pml does the rest. */

#define RUNS 3
#ifndef FUNDS               /* enough for one run, or for none */
#define FUNDS 10
#endif
#include "numbers.pml"

#define CLIENTS 2
#ifndef TRIES               /* again, by either client; each try can make at most one row, and there are three */
#define TRIES 1
#endif

#ifndef AUDITORS
#define AUDITORS 1
#endif
#ifndef TURNS               /* how often a handler reads again and goes on */
#define TURNS 1
#endif

#include "faults.pml"
#include "runs.pml"
#include "money.pml"
#include "finish.pml"

byte lock = NOBODY;         /* idem_lock */
byte mapping = NOBODY;      /* key -> run, in Redis */
byte made;                  /* rows so far: a run id is never used again */
byte tries = TRIES;
byte accepted[CLIENTS] = NOBODY;   /* the run in the receipt that the client was sent */

/* A run that ended without having been anybody's: its key is free again. */
#define GAVE_ITS_KEY_BACK(r) (runs[r].stage == COMMITTED && runs[r].money == REFUNDED && key_run != r)
#define WILL_GIVE_ITS_KEY_BACK(r) (runs[r].stage == CLAIMED && runs[r].intent == REFUNDS_AND_FREES_THE_KEY)

/* runs/submit/submission.py, its steps in its order. The glance that refuses before a row is made is left out: it touches
   nothing. */
proctype Client(byte me) {
  byte r, seen, plan, taken, answer, turns;
  bit won, locked;

  goto try;
idle:                                                  /* the handler died; its lock stays until it lapses */
again:                                                 /* 409, 503, or no answer */
  atomic {
    if
    :: lock == me -> lock = NOBODY
    :: else
    fi;
    if
    :: tries > 0 -> tries--
    :: else -> goto done
    fi
  }
try:
  forget();
  r = 0;
  turns = 0;
  locked = 0;
  atomic {                                             /* open the door */
    if
    DIES
    :: d_step {
         if
         :: lock == NOBODY -> lock = me; locked = 1
         :: else
         fi
       }
    fi;
    if
    :: mapping != NOBODY -> r = mapping; goto standing
    :: mapping == NOBODY && locked
    :: mapping == NOBODY && !locked -> goto again      /* 409 IDEMPOTENCY_IN_PROGRESS */
    fi
  }
insert:
  atomic {
    if
    DIES
#ifdef NO_UNIQUE_KEY
    :: made < RUNS -> r = made; made++; accept(r); goto hold_money
    :: made == RUNS -> goto again
#else
    :: key_run == NOBODY -> r = made; made++; accept(r); goto hold_money
    :: key_run != NOBODY -> r = key_run
#endif
    fi
  }
judge:                                                 /* what the row that has this key means */
  atomic {
    if
    DIES
    :: key_run != r || WILL_GIVE_ITS_KEY_BACK(r) -> goto again
    :: key_run == r && UNHELD(r) && runs[r].stage == UNCLAIMED ->
       if
       :: locked -> seen = runs[r].version
       :: else -> goto again
       fi
    :: key_run == r && runs[r].money != NONE && !WILL_GIVE_ITS_KEY_BACK(r) ->
       if
       :: lock == me -> mapping = r
       :: else
       fi;
       goto answer_202
    fi
  }
  atomic {
    if
    DIES
    :: resume(r)
    fi;
    if
    :: won
    :: else -> goto again
    fi
  }
hold_money:
  atomic {
    if
    DIES
    :: MONEY_OPEN -> reserve_lua(r)
    :: !MONEY_OPEN -> goto again                       /* 503 BUDGET_UNAVAILABLE */
    fi;
    if
    :: answer == OK
    :: answer == INSUFFICIENT -> goto refuse
    :: answer == ENDED -> goto again                   /* its money went back meanwhile */
    fi
  }
  atomic {
    if
    DIES
    :: reserve(r)
    fi;
    if
    :: won
    :: else -> goto look_again
    fi
  }
  atomic {                                             /* close the door */
    if
    DIES
    :: mapping = r
    fi;
    if
    :: lock == me -> lock = NOBODY
    :: else
    fi
  }
  atomic {
    if
    DIES
    :: goto answer_202
    :: true                                            /* the queue refused the message, or seemed to */
    fi
  }
take_back:
  atomic {
    if
    DIES
    :: claim_unsent(r)
    fi;
    if
    :: won
    :: else ->
       if
       :: WAITING(r) && runs[r].stage == UNCLAIMED -> seen = runs[r].version; goto take_back
       :: else -> goto answer_202                      /* started, or ended by another */
       fi
    fi
  }
  carry_out(r);
  atomic {                                             /* 503 QUEUE_ENQUEUE_FAILED */
    if
    DIES
    :: mapping = NOBODY
    fi;
    goto again
  }
refuse:
  atomic {
    if
    DIES
    :: drop(r)
    fi;
    if
    :: won
    :: else -> goto look_again
    fi
  }
#ifndef NO_TOMBSTONE_AT_THE_DROP
  atomic {                                             /* what another handler holds for this row, now or late */
    if
    DIES
    :: MONEY_OPEN -> d_step { refund_full_lua(r); law() }
    :: !MONEY_OPEN                                     /* a rebuild writes holds of rows alone */
    fi
  }
#endif
  atomic {                                             /* 402 BUDGET_DRAINED */
    if
    :: lock == me -> lock = NOBODY
    :: else
    fi;
    goto done
  }
look_again:                                            /* a rebuild, or another handler, moved the row */
  atomic {
    if
    :: turns < TURNS -> turns++; goto judge
    :: turns == TURNS -> goto again
    fi
  }
standing:                                              /* the mapping is a hint; the row is the truth */
  atomic {
#ifdef TRUSTS_THE_MAPPING
    assert(key_run == r);                              /* a receipt for a run that has given its key back */
    goto answer_202
#else
    if
    DIES
    :: key_run == r -> goto judge
    :: key_run != r && locked -> goto insert
    :: key_run != r && !locked -> goto again
    fi
#endif
  }
answer_202:
  atomic {
    accepted[me] = r;
    if
    :: lock == me -> lock = NOBODY
    :: else
    fi
  }
done:
  skip
}

/* DPP-30, the first step of it. The message of a run that waits may come at any moment, since the requeuer sends it too. */
inline receive(r) {
  atomic { WAITING(r) && runs[r].stage == UNCLAIMED -> seen = runs[r].version; found = r }
}

proctype Worker(byte me) {
  byte seen, found;
  bit won;

idle:
  seen = 0;
  found = 0;
  won = 0;
end_no_message:
  if
  :: receive(0)
  :: receive(1)
  :: receive(2)
  fi;
  if
  DIES
  :: start(found)
  fi;
  goto idle
}

/* DPP-44: rows left at money NONE; holds whose row was dropped are the rebuild's. DPP-42: claims whose holder is gone. */
inline find_abandoned(r) {
  atomic { MONEY_OPEN && UNHELD(r) && runs[r].stage == UNCLAIMED -> seen = runs[r].version; found = r }
}

inline find_old_claim(r) {
  atomic {
    MONEY_OPEN && OLD_CLAIM(r) ->
    steals = (alive[runs[r].token] -> steals - 1 : steals);
    seen = runs[r].version;
    found = r
  }
}

proctype Auditor(byte me) {
  byte seen, plan, taken, answer, found;
  bit won;

idle:
  forget();
  found = 0;
end_nothing_to_mend:
  if
  :: find_abandoned(0) -> goto abandoned
  :: find_abandoned(1) -> goto abandoned
  :: find_abandoned(2) -> goto abandoned
  :: find_old_claim(0)
  :: find_old_claim(1)
  :: find_old_claim(2)
  fi;
  if
  DIES
  :: retake(found)
  fi;
  goto finish;
abandoned:
  if
  DIES
  :: claim_abandoned(found)
  fi;
finish:
  if
  :: won -> carry_out(found)
  :: else
  fi;
  goto idle
}

/* The lock's time to live; a top-up. */
proctype World() {
  byte top_ups = TOP_UPS;
end_world:
  do
  :: d_step { lock != NOBODY -> lock = NOBODY }
  :: d_step {
       top_ups > 0 && MONEY_OPEN ->
       top_ups--;
       ledger = ledger + HELD;
       balance = balance + HELD;
       law()
     }
  od
}

#define IS_WORKED(r) (runs[r].status == PROCESSING)
#define IS_SETTLED_DOWN(r) \
  (runs[r].status == ABSENT || IS_WORKED(r) || GAVE_ITS_KEY_BACK(r))

inline judge(r) {
  assert(IS_SETTLED_DOWN(r));                          /* nothing is stuck */
  assert(hold[r] == (IS_WORKED(r) -> HELD : 0));       /* no orphan hold, and no work without one */
  assert(!worked[r] || IS_WORKED(r))                   /* nobody works for nothing */
}

proctype Judge() {
  timeout ->
  judge(0);
  judge(1);
  judge(2);
  assert(MONEY_OPEN);
  assert(ledger == balance + HOLDS);                   /* conservation */
  assert(worked[0] + worked[1] + worked[2] <= 1);      /* one key, one run */
  assert(accepted[0] == NOBODY || runs[accepted[0]].status != ABSENT);
  assert(accepted[1] == NOBODY || runs[accepted[1]].status != ABSENT);
  assert(accepted[0] == NOBODY || accepted[1] == NOBODY || accepted[0] == accepted[1] ||
         GAVE_ITS_KEY_BACK(accepted[0]) || GAVE_ITS_KEY_BACK(accepted[1]))   /* the same receipt */
}

#ifdef LIVENESS
#define OPEN_ROW(r) (runs[r].status == QUEUED)
ltl no_row_waits_for_ever { [] ((OPEN_ROW(0) || OPEN_ROW(1) || OPEN_ROW(2)) -> <> (!OPEN_ROW(0) && !OPEN_ROW(1) && !OPEN_ROW(2))) }
#endif

init {
  atomic {
    run Client(SUBMITTER);
    run Client(SECOND_SUBMITTER);
    run Worker(WORKER);
    run Auditor(RECONCILER);
#if AUDITORS > 1
    run Auditor(SECOND_RECONCILER);
#endif
    run Rebuilder(BYSTANDER);
    run World();
#ifndef LIVENESS
    run Judge()
#endif
  }
}
