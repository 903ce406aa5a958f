/* One run from its submit to its end, and everybody who may touch it. */

#define RUNS 1
#define RUN 0
#define FUNDS 20
#include "numbers.pml"

#ifndef DELIVERIES /* of one message, then it is a dead letter */
#define DELIVERIES 2
#endif
#ifndef WORKERS
#define WORKERS 1
#endif
#ifndef CLAIMERS
#define CLAIMERS 1
#endif
#ifndef RECONCILERS
#define RECONCILERS 1
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#ifndef RENEWALS
#define RENEWALS 0
#endif
#ifndef RESENDS
#define RESENDS 0
#endif
#ifndef LOST_MESSAGES
#define LOST_MESSAGES 0
#endif
#ifndef LETTERS /* a message that was received too often goes to the dead-letter queue, not away */
#define LETTERS 0
#endif
#ifndef LOST_RESULTS
#define LOST_RESULTS 0
#endif

#include "faults.pml"
#include "runs.pml"
#include "money.pml"
#include "finish.pml"
#include "credits.pml"

bit message;                /* in the queue, or with a worker that has not acknowledged it */
byte deliveries;
byte letter;                /* in the dead-letter queue, and what is stored of it */
bit stored;                 /* the result, in S3 */
bit stored_once;
byte cancels = CANCELS;
byte renewals = RENEWALS;
byte resends = RESENDS;
byte lost_messages = LOST_MESSAGES;
byte lost_results = LOST_RESULTS;

#define NO_LETTER 0
#define NEW_LETTER 1
#define REQUEUED 2
#define ENDED_BY_LETTER 3

inline send() {
  d_step {
    message = 1;
    deliveries = 0
  }
}

/* DPP-01, DPP-09. What two at once with the same key may do is in submit.pml. */
proctype Submitter(byte me) {
  byte seen, plan, taken, answer;
  bit won;

  if
  :: false -> goto idle
  :: else
  fi;
#ifndef NO_ROW_FIRST
  accept(RUN);
  atomic {
    if
    DIES
    :: MONEY_OPEN -> reserve_lua(RUN)
    :: !MONEY_OPEN -> goto idle                        /* 503; the row is left to the auditor */
    fi;
    if
    :: answer == OK
    :: else -> goto idle
    fi
  }
  atomic {
    if
    DIES
    :: reserve(RUN)
    fi;
    if
    :: won
    :: else -> goto idle
    fi
  }
#else
  atomic {
    MONEY_OPEN;
    reserve_lua(RUN)
  }
  atomic {
    if
    DIES
    :: accept(RUN)
    fi;
    runs[RUN].money = RESERVED
  }
#endif
  atomic {
    if
    DIES
    :: send(); goto idle                               /* 202 */
    :: send()                                          /* the queue seemed to refuse it */
    :: true                                            /* the queue refused it */
    fi
  }
#ifdef NO_CAS_FIRST
  plan = REFUNDS;
  atomic {
    if
    DIES
    :: MONEY_OPEN -> settle_or_refund(RUN)
    fi
  }
  atomic {
    if
    DIES
    :: d_step {
         if
         :: runs[RUN].status == QUEUED && runs[RUN].version == seen ->
            runs[RUN].status = FAILED;
            runs[RUN].money = REFUNDED;
            runs[RUN].stage = COMMITTED;
            moved(RUN)
         :: else
         fi
       }
    fi
  }
  goto idle;
#endif
unsent:
  atomic {
    if
    DIES
    :: claim_unsent(RUN)
    fi;
    if
    :: won
    :: else ->
       if
       :: WAITING(RUN) && runs[RUN].stage == UNCLAIMED -> seen = runs[RUN].version; goto unsent
       :: else -> goto idle                            /* started, or ended by another: 202 */
       fi
    fi
  }
  carry_out(RUN);
idle:
  skip
}

/* DPP-30 to DPP-37. */
proctype Worker(byte me) {
  byte seen, plan, taken, answer;
  bit won;

idle:
  forget();
end_no_message:
  atomic {
    message && deliveries < DELIVERIES ->
    deliveries++;
    seen = runs[RUN].version;
    if
    :: MAY_START(RUN)
    :: else -> goto acknowledge
    fi
  }
  atomic {
    if
    DIES
    :: start(RUN)
    fi;
    if
    :: won
    :: else -> goto acknowledge
    fi
  }
work:
  atomic {
    if
    DIES
    :: renewals > 0 && runs[RUN].lease != FRESH ->
       renewals--;
       renew(RUN);
       if
       :: won -> goto work
       :: else -> goto acknowledge                     /* the lease is lost: stop the pack, touch nothing */
       fi
    :: d_step { stored = 1; stored_once = 1; plan = COMPLETES }
    :: plan = FAILS                                    /* wrong, dead, too slow or too big */
    :: d_step { plan = REFUNDS; worked[RUN] = 0 }      /* its engine is missing: nothing was done */
    fi
  }
  atomic {
    if
    DIES
    :: claim_worked(RUN)
    fi;
    if
    :: won
    :: else -> goto acknowledge
    fi
  }
  carry_out(RUN);
acknowledge:
  atomic {
    if
    DIES
    :: message = 0
    fi
  }
  goto idle
}

/* Whoever ends a run it did not work on: reaper (DPP-40), sweeper (DPP-41), auditor (DPP-44), owner (DPP-27). They differ in
   what they look for and what they decide. */
proctype Claimer(byte me) {
  byte seen, plan, taken, answer;
  bit won;

idle:
  forget();
end_nothing_to_claim:
  if
  :: atomic { MONEY_OPEN && LEASE_EXPIRED(RUN) -> seen = runs[RUN].version }
     if
     DIES
     :: claim_lease_expired(RUN)
     fi
  :: atomic { MONEY_OPEN && WAITING(RUN) && runs[RUN].stage == UNCLAIMED -> seen = runs[RUN].version }
     if
     DIES
     :: claim_never_started(RUN)
     fi
  :: atomic { MONEY_OPEN && UNHELD(RUN) && runs[RUN].stage == UNCLAIMED -> seen = runs[RUN].version }
     if
     DIES
     :: claim_abandoned(RUN)
     fi
  :: atomic {
       cancels > 0 && runs[RUN].money == RESERVED && runs[RUN].stage == UNCLAIMED ->
       cancels--;
       seen = runs[RUN].version;
       plan = (runs[RUN].status == QUEUED -> REFUNDS : FAILS)
     }
     if
     DIES
     :: claim_canceled(RUN)
     fi
  fi;
  if
  :: won -> carry_out(RUN)
  :: else
  fi;
  goto idle
}

/* DPP-42: takes over any claim that has grown old, and carries out what it says. */
proctype Reconciler(byte me) {
  byte seen, plan, taken, answer;
  bit won, result_lost;

idle:
  forget();
  result_lost = 0;
end_no_old_claim:
  atomic {
    MONEY_OPEN && OLD_CLAIM(RUN) ->
    steals = (alive[runs[RUN].token] -> steals - 1 : steals);
    seen = runs[RUN].version;
    result_lost = (runs[RUN].intent == COMPLETES)
  }
  result_lost = result_lost && !stored;                /* a definite 404 */
  atomic {
    if
    DIES
    :: retake(RUN)
    fi;
    if
    :: !won -> goto idle
    :: won && result_lost
    :: won && !result_lost -> goto finish
    fi
  }
  atomic {
    if
    DIES
    :: reintend(RUN)
    fi;
    if
    :: won
    :: else -> alive[me] = 0; goto idle
    fi
  }
finish:
#ifdef NO_INTENT
  plan = (runs[RUN].status == QUEUED -> REFUNDS : (stored -> COMPLETES : FAILS));   /* decides by what it sees */
#endif
  carry_out(RUN);
  goto idle
}

/* DPP-43. Whoever wins the postponing sends. */
inline postpone_send(r) {
  d_step { SEND_DUE(r) && resends > 0 -> resends-- }
}

proctype Requeuer(byte me) {
idle:
  skip;
end_nothing_due:
  postpone_send(RUN);
  if
  DIES
  :: send()
  fi;
  goto idle
}

/* DPP-45: once more, then the money goes back. The letter's row and the step of the run are one transaction. */
proctype DeadLetters(byte me) {
  byte seen, plan, taken, answer;
  bit won;

idle:
  forget();
end_no_letter:
  atomic {
    letter != NO_LETTER -> seen = runs[RUN].version;
    if
    :: letter == NEW_LETTER && SEND_DUE(RUN)
    :: letter == NEW_LETTER && WAITING(RUN) && runs[RUN].stage == UNCLAIMED && runs[RUN].dead_lettered -> goto end
    :: letter == REQUEUED && WAITING(RUN) && runs[RUN].stage == UNCLAIMED -> goto send_again
    :: else -> goto delete_letter
    fi
  }
  atomic {
    if
    DIES
    :: mark_dead_lettered(RUN)
    fi;
    if
    :: won -> letter = REQUEUED
    :: else -> goto delete_letter
    fi
  }
send_again:
  if
  DIES
  :: send()
  fi;
  goto delete_letter;
end:
  atomic {
    if
    DIES
    :: claim_dead_lettered(RUN)
    fi;
    if
    :: won -> letter = ENDED_BY_LETTER
    :: else -> goto delete_letter
    fi
  }
  carry_out(RUN);
delete_letter:
  if
  DIES
  :: letter = NO_LETTER
  fi;
  goto idle
}

/* Time, and what breaks by itself. */
proctype World() {
end_world:
  do
  :: d_step { runs[RUN].stage == UNCLAIMED && runs[RUN].lease != EXPIRED -> runs[RUN].lease-- }
  :: d_step { LETTERS && message && letter == NO_LETTER -> message = 0; deliveries = 0; letter = NEW_LETTER }
  :: d_step { message && lost_messages > 0 -> lost_messages--; message = 0; deliveries = 0 }
  :: d_step { stored && lost_results > 0 -> lost_results--; stored = 0 }
#if LOSSES > 0
  :: d_step { losses > 0 && !image_saved -> save_image() }
  :: d_step { losses > 0 && image_saved -> losses--; restore_image() }
#endif
#ifdef HOLD_EXPIRES
  :: d_step { hold[RUN] > 0 && WAITING(RUN) -> hold[RUN] = 0 }
#endif
  od
}

/* Nobody can move any more: what must be true of a run that was accepted. */
proctype Judge() {
  timeout ->
  assert(runs[RUN].status == ABSENT || runs[RUN].stage == COMMITTED);          /* nothing is stuck */
  assert(MONEY_OPEN);
  assert(hold[RUN] == 0);                                                      /* no orphan hold */
  assert(!pending[TOP_UP] && !pending[ADJUST]);
  assert(ledger == balance);                                                   /* conservation */
  assert(ledger == FUNDS + (entered[TOP_UP] -> TOP_UP_AMOUNT : 0) - runs[RUN].cost);
  assert(runs[RUN].status != COMPLETED || runs[RUN].cost == ACTUAL);           /* the right price */
  assert(runs[RUN].status != FAILED || runs[RUN].money != SETTLED || runs[RUN].cost == MINIMUM);
  assert(runs[RUN].money != REFUNDED || runs[RUN].cost == 0);
  assert(runs[RUN].money != REFUNDED || !worked[RUN]);                         /* nobody works for nothing */
  assert(runs[RUN].status != COMPLETED || stored_once)
}

#ifdef LIVENESS
#define ACCEPTED (runs[RUN].status != ABSENT)
#define IS_ENDED (runs[RUN].stage == COMMITTED)
ltl every_run_ends { [] (ACCEPTED -> <> IS_ENDED) }
ltl money_opens_again { [] (!MONEY_OPEN -> <> MONEY_OPEN) }
ltl every_credit_arrives { [] ((pending[TOP_UP] || pending[ADJUST]) -> <> (!pending[TOP_UP] && !pending[ADJUST])) }
#endif

init {
  atomic {
    run Submitter(SUBMITTER);
    run Worker(WORKER);
#if WORKERS > 1
    run Worker(SECOND_WORKER);
#endif
#if CLAIMERS > 0
    run Claimer(CLAIMER);
#endif
#if CLAIMERS > 1
    run Claimer(SECOND_CLAIMER);
#endif
#if RECONCILERS > 0
    run Reconciler(RECONCILER);
#endif
#if RECONCILERS > 1
    run Reconciler(SECOND_RECONCILER);
#endif
#if RESENDS > 0
    run Requeuer(BYSTANDER);
#endif
#if LETTERS
    run DeadLetters(DEAD_LETTERS);
#endif
#if REBUILDS + LOSSES > 0
    run Rebuilder(BYSTANDER);
#endif
#if TOP_UPS > 0
    run TopUp(BYSTANDER);
#endif
#if TOP_UPS + LOST_RESULTS > 0
    run Replayer(BYSTANDER);
#endif
    run World();
#ifndef LIVENESS
    run Judge()
#endif
  }
}
