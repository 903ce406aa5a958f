/* Postgres is put back to what it was before, under processes that go on (HRD-06): a failover to a replica that lagged, a
   restore. Redis is not, and has heard what was committed. */

#define RUNS 1
#define RUN 0
#define FUNDS 20
#include "numbers.pml"
#include "faults.pml"
#include "runs.pml"
#include "money.pml"
#include "finish.pml"
#include "credits.pml"

bit made;                   /* a run that was lost is not made again: the next one has another id */
byte told_credit;           /* what the tenant was told of his top-up */

/* DPP-01, as far as it leaves something in Postgres. */
proctype Submitter(byte me) {
  byte seen, plan, taken, answer;
  bit won;

  if
  :: false -> goto idle
  :: else
  fi;
  accept(RUN);
  made = 1;
  atomic {
    if
    DIES
    :: MONEY_OPEN -> reserve_lua(RUN)
    :: !MONEY_OPEN -> goto idle
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
  if
  DIES
  :: heard_run = 1
  fi;
idle:
  skip
}

/* Whoever acts on the run next: works, ends it, takes it over. */
proctype Actor(byte me) {
  byte seen, plan, taken, answer;
  bit won;

idle:
  forget();
end_nothing_to_do:
  if
  :: atomic { MONEY_OPEN && WAITING(RUN) && runs[RUN].stage == UNCLAIMED -> seen = runs[RUN].version };
     atomic {
       if
       DIES
       :: start(RUN)
       fi;
       if
       :: won -> plan = COMPLETES
       :: else -> goto idle
       fi
     }
     if
     DIES
     :: claim_worked(RUN)
     fi
  :: atomic { MONEY_OPEN && UNHELD(RUN) && runs[RUN].stage == UNCLAIMED -> seen = runs[RUN].version }
     if
     DIES
     :: claim_abandoned(RUN)
     fi
  :: atomic { MONEY_OPEN && runs[RUN].status == PROCESSING && runs[RUN].stage == UNCLAIMED && !alive[me] ->
       runs[RUN].lease = EXPIRED; seen = runs[RUN].version }
     if
     DIES
     :: claim_lease_expired(RUN)
     fi
  :: atomic { MONEY_OPEN && runs[RUN].stage == CLAIMED && OLD_CLAIM(RUN) ->
       steals = (alive[runs[RUN].token] -> steals - 1 : steals);
       seen = runs[RUN].version }
     if
     DIES
     :: retake(RUN)
     fi
  fi;
  if
  :: won -> carry_out(RUN)
  :: else
  fi;
  goto idle
}

/* The past: what Postgres was at any earlier moment. Every connection to it breaks, and the first new one asks. */
bit past_saved;
Run past_run;
short past_ledger;
bit past_entered[2];
bit past_pending[2];
bit past_adjusted;

proctype Past() {
end_past:
  do
  :: d_step {
       pasts > 0 && !past_saved ->
       past_saved = 1;
       past_run.status = runs[RUN].status;
       past_run.money = runs[RUN].money;
       past_run.stage = runs[RUN].stage;
       past_run.version = runs[RUN].version;
       past_run.lease = runs[RUN].lease;
       past_run.leased_to = runs[RUN].leased_to;
       past_run.token = runs[RUN].token;
       past_run.intent = runs[RUN].intent;
       past_run.cost = runs[RUN].cost;
       past_ledger = ledger;
       past_entered[TOP_UP] = entered[TOP_UP];
       past_pending[TOP_UP] = pending[TOP_UP];
       past_entered[ADJUST] = entered[ADJUST];
       past_pending[ADJUST] = pending[ADJUST];
       past_adjusted = adjusted
     }
  :: d_step {
       pasts > 0 && past_saved ->
       pasts--;
       runs[RUN].status = past_run.status;
       runs[RUN].money = past_run.money;
       runs[RUN].stage = past_run.stage;
       runs[RUN].version = past_run.version;
       runs[RUN].lease = past_run.lease;
       runs[RUN].leased_to = past_run.leased_to;
       runs[RUN].token = past_run.token;
       runs[RUN].intent = past_run.intent;
       runs[RUN].cost = past_run.cost;
       if
       :: runs[RUN].stage != COMMITTED -> charges[RUN] = 0
       :: else
       fi;
       ledger = past_ledger;
       entered[TOP_UP] = past_entered[TOP_UP];
       pending[TOP_UP] = past_pending[TOP_UP];
       entered[ADJUST] = past_entered[ADJUST];
       pending[ADJUST] = past_pending[ADJUST];
       adjusted = past_adjusted;
       past_saved = 0;
#ifndef OPENS_UNASKED
       if
       :: IS_BEHIND -> epoch_gate = CLOSED_AS_BEHIND
       :: else
       fi
#endif
     }
#ifndef OPENS_UNASKED
  :: d_step { epoch_gate == OPEN && IS_BEHIND -> epoch_gate = CLOSED_AS_BEHIND }   /* the watch */
#endif
  od
}

/* accept_ledger_loss: the ledger gets what it lacks by Redis; then what was heard is forgotten. */
proctype Operator() {
end_operator:
  do
  :: d_step {
       epoch_gate == CLOSED_AS_BEHIND && IS_BEHIND ->
#ifndef ACCEPTS_WITHOUT_ENTRIES
       ledger = balance + HOLDS + ALL_TAKEN_NOT_COMMITTED + CREDITS_NOT_APPLIED;
#endif
       adjusted = 1
     }
     d_step {
       heard_run = heard_run && !RUN_IS_BEHIND;
       heard_end = heard_end && !END_IS_BEHIND;
       heard_entry[TOP_UP] = heard_entry[TOP_UP] && entered[TOP_UP];
       heard_entry[ADJUST] = heard_entry[ADJUST] && entered[ADJUST];
       heard_adjusted = 1
     }
  od
}

proctype Teller() {
end_teller:
  d_step { credited[TOP_UP] -> told_credit = TOP_UP_AMOUNT }
}

proctype Judge() {
  timeout ->
  assert(MONEY_OPEN);
  assert(!IS_BEHIND);
  assert(runs[RUN].status == ABSENT || runs[RUN].stage == COMMITTED);
  assert(hold[RUN] == 0);
  assert(!pending[TOP_UP] && !pending[ADJUST]);
  assert(ledger == balance);                                                   /* conservation */
  assert(FUNDS + TOP_UP_AMOUNT - balance <= ACTUAL + (told_credit -> 0 : TOP_UP_AMOUNT));   /* never charged twice */
  assert(balance <= FUNDS + TOP_UP_AMOUNT)                                     /* nothing is minted */
}

init {
  atomic {
    run Submitter(SUBMITTER);
    run Actor(WORKER);
#if STEALS > 0
    run Actor(RECONCILER);
#endif
#if TOP_UPS > 0
    run TopUp(CLAIMER);
#endif
    run Replayer(DEAD_LETTERS);
    run Teller();
    run Rebuilder(BYSTANDER);
    run Past();
    run Operator();
    run Judge()
  }
}
