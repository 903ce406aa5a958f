/* Two rebuilds at once, because one was frozen and its lease ran out (DPP-55, HRD-01); and money on its way through both. */

#define RUNS 1
#define RUN 0
#define FUNDS 20
#define AT_ANY_MOMENT
#include "numbers.pml"
#include "faults.pml"
#include "runs.pml"
#include "money.pml"
#include "finish.pml"
#include "credits.pml"

/* Whoever acts on the run next, in one process: it goes on from what the row says. A second one takes claims over. */
#define MAY_GO_ON(r) \
  (runs[r].stage == CLAIMED -> OLD_CLAIM(r) : me == WORKER || runs[r].stage == COMMITTED)
proctype Next(byte me) {
  byte seen, plan, taken, answer;
  bit won;

idle:
  forget();
end_money_is_closed:
  atomic {
    MONEY_OPEN && MAY_GO_ON(RUN) -> seen = runs[RUN].version;
    if
    :: runs[RUN].status == ABSENT -> accept(RUN)
    :: UNHELD(RUN) -> resume(RUN)
    :: WAITING(RUN) && runs[RUN].stage == UNCLAIMED -> goto work
    :: runs[RUN].stage == CLAIMED ->
       steals = (alive[runs[RUN].token] -> steals - 1 : steals);
       retake(RUN);
       goto finish
    :: runs[RUN].stage == COMMITTED -> goto ended
    fi
  }
  atomic {
    if
    DIES
    :: MONEY_OPEN -> reserve_lua(RUN); assert(answer == OK)
    :: !MONEY_OPEN -> goto idle
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
work:
  atomic { start(RUN); assert(won); plan = COMPLETES }
  atomic { claim_worked(RUN); assert(won) }
finish:
  carry_out(RUN);
  goto idle;
ended:
  skip
}
#ifdef LEASE
/* The server's own time. */
proctype Lapse() {
end_lapse:
  do
#ifndef NO_LAPSE
  :: d_step { rebuilding != NOBODY -> rebuilding = NOBODY }
#else
  :: false
#endif
  od
}
#endif

proctype Judge() {
  timeout ->
  assert(runs[RUN].stage == COMMITTED && runs[RUN].cost == ACTUAL && charges[RUN] == 1);
  assert(MONEY_OPEN);
  assert(hold[RUN] == 0);
  assert(!pending[TOP_UP] && !pending[ADJUST]);
  assert(ledger == balance && ledger == FUNDS + TOP_UP_AMOUNT - ACTUAL)
}

init {
  atomic {
    run Next(WORKER);
#if STEALS > 0
    run Next(RECONCILER);
#endif
    run TopUp(CLAIMER);
    run Replayer(DEAD_LETTERS);
    run Rebuilder(BYSTANDER);
    run Rebuilder(SECOND_BYSTANDER);
#ifdef LEASE
    run Lapse();
#endif
    run Judge()
  }
}
