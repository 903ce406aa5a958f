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

proctype Client(byte me) {
  byte r, seen, plan, taken, answer;
  bit won;

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
  atomic {
    if
    DIES
    :: lock == NOBODY -> lock = me
    :: lock != NOBODY && mapping != NOBODY -> r = mapping; goto replay
    :: lock != NOBODY && mapping == NOBODY -> goto again         /* 409 IDEMPOTENCY_IN_PROGRESS */
    fi
  }
  atomic {
    if
    DIES
    :: mapping != NOBODY -> r = mapping; goto replay
    :: mapping == NOBODY
    fi
  }
insert:
  atomic {
    if
    DIES
#ifdef NO_UNIQUE_KEY
    :: made < RUNS -> r = made; made++; accept(r); goto hold_money
#else
    :: key_run == NOBODY -> r = made; made++; accept(r); goto hold_money
    :: key_run != NOBODY -> r = key_run
#endif
    fi
  }
  atomic {                                             /* the row of an earlier try, or of the other client's */
    if
    DIES
    :: UNHELD(r) && runs[r].stage == UNCLAIMED -> seen = runs[r].version
    :: WAITING(r) && runs[r].stage == UNCLAIMED -> seen = runs[r].version; goto enqueue
    :: WAITING(r) && runs[r].stage == UNCLAIMED -> goto answer_202   /* the requeuer will send it */
    :: runs[r].status == PROCESSING -> goto answer_202
    :: else -> goto again                              /* dropped since, or on its way to giving the key back */
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
    :: answer == INSUFFICIENT -> goto answer_402
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
    :: else -> goto again
    fi
  }
enqueue:
  if
  DIES
  :: mapping = r
  fi;
  atomic {
    if
    DIES
    :: goto answer_202
    :: true                                            /* the queue refused it, or seemed to */
    fi
  }
  atomic {
    if
    DIES
    :: claim_unsent(r)
    fi;
    if
    :: won
    :: else -> goto lost_the_claim
    fi
  }
  carry_out(r);
  if
  DIES
  :: atomic { mapping == r -> mapping = NOBODY; goto again }     /* 503 QUEUE_ENQUEUE_FAILED */
  :: mapping != r -> goto again
  fi;
lost_the_claim:
  atomic {
    if
    DIES
    :: WAITING(r) && runs[r].stage == UNCLAIMED -> seen = runs[r].version; goto enqueue
    :: runs[r].status == PROCESSING -> goto answer_202
    :: else -> goto again
    fi
  }
replay:                                                /* the mapping is a hint; the row is the truth */
  atomic {
    if
    DIES
#ifdef TRUSTS_THE_MAPPING
    :: true -> assert(key_run == r); goto answer_202   /* a receipt for a run whose key is free again */
#else
    :: key_run == r && !WILL_GIVE_ITS_KEY_BACK(r) && runs[r].money != NONE -> goto answer_202
    :: else ->
       if
       :: lock == me -> goto insert
       :: else -> goto again
       fi
#endif
    fi
  }
answer_402:
  atomic {
    if
    DIES
    :: drop(r)
    fi;
    if
    :: won && lock == me -> lock = NOBODY; goto done
    :: won && lock != me -> goto done
    :: else -> goto again                              /* another has taken the row over */
    fi
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

/* DPP-44: rows left at money NONE, and holds whose row was dropped. DPP-42: claims whose holder is gone. */
inline find_abandoned(r) {
  atomic { UNHELD(r) && runs[r].stage == UNCLAIMED -> seen = runs[r].version; found = r }
}

inline find_old_claim(r) {
  atomic {
    OLD_CLAIM(r) ->
    steals = (alive[runs[r].token] -> steals - 1 : steals);
    seen = runs[r].version;
    found = r
  }
}

/* The hold is seen first and the row looked for after: a row stands before its hold does. */
inline refund_hold_without_row(r) {
  atomic { hold[r] > 0 && runs[r].status == ABSENT && MONEY_OPEN -> plan = REFUNDS; settle_or_refund(r) }
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
#ifndef NO_HOLD_AUDIT
  :: refund_hold_without_row(0) -> goto idle
  :: refund_hold_without_row(1) -> goto idle
  :: refund_hold_without_row(2) -> goto idle
#endif
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
#if REBUILDS > 0
    run Rebuilder(BYSTANDER);
#endif
    run World();
#ifndef LIVENESS
    run Judge()
#endif
  }
}
