/* Two runs of one key under a cap of the day and one of all days, while days end, the clock goes back, caps change, a value
   is lost, money is rebuilt and processes die. */

#define RUNS 2
#define FUNDS 40
#define CAPS 1
#include "numbers.pml"
#include "faults.pml"
#ifndef NIGHTS
#define NIGHTS 1
#endif
#ifndef CLOCK_GOES_BACK
#define CLOCK_GOES_BACK 0
#endif
#ifndef CHANGES /* of the cap: 1 a limit of the day, 2 none, 3 a limit of all days */
#define CHANGES 0
#endif
#ifndef DISPUTES
#define DISPUTES 0
#endif
#ifndef LOST_RESULTS
#define LOST_RESULTS 0
#endif
#ifndef LOST_CAPS /* the value alone goes */
#define LOST_CAPS 0
#endif
#ifndef SLOW /* a handler of run 0 that others overtake */
#define SLOW 0
#endif
#include "runs.pml"
#include "money.pml"
#include "finish.pml"
#include "credits.pml"

byte nights = NIGHTS;
byte backs = CLOCK_GOES_BACK;
byte changes = CHANGES;
byte disputes = DISPUTES;
byte lost_results = LOST_RESULTS;
byte lost_caps = LOST_CAPS;
#if CLOCK_GOES_BACK > 0
byte remembered;            /* the latest date that a process was told; another process does not know it */
#define REMEMBER(date) remembered = (date > remembered -> date : remembered)
#else
#define REMEMBER(date) skip
#endif
bit gone[RUNS];             /* dropped: a run id is never used again */

/* In one step with the answer: if its process dies before, the next hold gets the same one. */
#define ASK_FOR_A_REBUILD tenant_gate = CLOSED_BY(me)

/* Once a run is held, or gone, nobody asks for its principal: one state less to tell apart. */
#define MAY_BE_HELD(r) (!gone[r] && runs[r].money == NONE && runs[r].stage == UNCLAIMED)
#if CHANGES > 0 && SLOW == 0
#define FORGET_PRINCIPAL(r) least[r] = NOBODY
#else
#define FORGET_PRINCIPAL(r) skip
#endif

/* Whoever acts on a run next, in one process: it goes on from what the row says. A second one takes claims over. */
#define MAY_ACT_ON(r) (!gone[r] && (runs[r].stage == CLAIMED -> OLD_CLAIM(r) : me != RECONCILER))
proctype Owner(byte me; byte r) {
  byte seen, plan, taken, answer, told, day;
  bit won;

idle:
  forget();
  told = 0;
  day = 0;
end_nothing_to_do:
  atomic {
    MONEY_OPEN && MAY_ACT_ON(r) -> seen = runs[r].version;
    if
    :: runs[r].status == ABSENT -> accept(r)
#if CLOCK_GOES_BACK > 0
    :: runs[r].status == ABSENT && remembered > today -> day = remembered; accept(r)
#endif
    :: UNHELD(r) && runs[r].stage == UNCLAIMED -> resume(r); day = runs[r].day
    :: UNHELD(r) && runs[r].stage == UNCLAIMED -> claim_abandoned(r); day = runs[r].day; goto finish
    :: WAITING(r) && runs[r].stage == UNCLAIMED -> goto work
    :: runs[r].status == PROCESSING && runs[r].stage == UNCLAIMED -> goto claim
    :: runs[r].stage == CLAIMED ->
       steals = (alive[runs[r].token] -> steals - 1 : steals);
       retake(r);
       day = runs[r].day;
       goto take_over
    :: runs[r].stage == COMMITTED -> goto ended
    fi
  }
hold_money:
  atomic {
    if
    DIES
    :: MONEY_OPEN -> reserve_lua(r)
    :: !MONEY_OPEN -> goto idle
    fi;
    if
    :: answer == OK
    :: answer == TOO_EARLY -> goto later
    :: answer == CAPPED -> goto refuse
    :: answer == CAPS_LOST -> ASK_FOR_A_REBUILD; goto idle
    :: answer == ENDED -> goto idle                    /* its money went back meanwhile */
    fi
  }
  atomic {
    if
    DIES
    :: reserve(r)
    fi;
    if
    :: won -> FORGET_PRINCIPAL(r)
    :: else -> goto idle
    fi
  }
work:
  atomic {
    if
    DIES
    :: runs[r].version == seen && WAITING(r) && runs[r].stage == UNCLAIMED -> start(r)
    :: runs[r].version == seen && WAITING(r) && runs[r].stage == UNCLAIMED -> claim_never_started(r); day = runs[r].day; goto finish
    :: else -> goto idle
    fi
  }
claim:
  atomic {
    if
    DIES
    :: plan = COMPLETES
    :: plan = FAILS
    fi;
    runs[r].leased_to = me;
    claim_worked(r);
    if
    :: won -> day = runs[r].day; goto finish
    :: else -> goto idle
    fi
  }
take_over:
  atomic {
    if
    :: r == ADJUSTED && plan == COMPLETES && lost_results > 0 ->
       lost_results--;
       if
       DIES
       :: reintend(r)
       fi;
       if
       :: won
       :: else -> alive[me] = 0; goto idle
       fi
    :: true
    fi
  }
finish:
  carry_out(r);
  goto idle;
later:
  atomic {
    if
    DIES
    :: redate(r, told); day = told; REMEMBER(told); told = 0
    fi;
    if
    :: won -> goto hold_money
    :: else -> goto idle
    fi
  }
refuse:
  atomic {
    if
    DIES
    :: drop(r)
    fi;
    if
    :: won -> gone[r] = 1; FORGET_PRINCIPAL(r)
    :: else -> goto idle
    fi
  }
  atomic {                                             /* what another handler holds for this row, now or late */
    if
    DIES
    :: MONEY_OPEN -> d_step { refund_full_lua(r); law() }
    :: !MONEY_OPEN                                     /* a rebuild writes holds of rows alone */
    fi
  }
ended:
  skip
}

#if SLOW > 0
/* Has taken run 0 over to hold its money; until it does, everything may happen. */
proctype SlowHandler(byte me) {
  byte seen, plan, taken, answer, told, day;
  bit won;

end_no_row:
  atomic { MONEY_OPEN && UNHELD(0) && runs[0].stage == UNCLAIMED -> seen = runs[0].version; resume(0); day = runs[0].day }
end_closed:
  atomic {
    MONEY_OPEN -> reserve_lua(0);
    if
    :: answer == OK
    :: answer == TOO_EARLY -> goto later
    :: else -> goto done
    fi
  }
  reserve(0);
  goto done;
later:
  redate(0, told);
done:
  skip
}
#endif

#if CHANGES > 0
/* Commit, put in force, answer. */
proctype Changer(byte me) {
  byte revision, answer;

idle:
  revision = 0;
  answer = 0;
end_no_change:
  atomic {
    changes > 0 -> changes--;
    cap_revision++;
    revision = cap_revision
  }
put_in_force:
  atomic {
    if
    DIES
    :: MONEY_OPEN -> caps_lua(revision)
    :: !MONEY_OPEN -> goto idle                        /* enforced: false; the next hold sees to it */
    fi;
    if
    :: answer == OK
    :: answer == CAPS_LOST -> ASK_FOR_A_REBUILD; goto unknown
    fi
  }
  d_step { answered = (revision > answered -> revision : answered) }
  goto idle;
unknown:
  atomic { MONEY_OPEN -> goto put_in_force }
}
#endif

/* The database's clock, which may be set back or be another server's. */
proctype Clock() {
end_clock:
  do
  :: d_step { nights > 0 -> nights--; today++ }
#if CLOCK_GOES_BACK > 0
  :: d_step { backs > 0 && today > 1 -> backs--; today-- }
#endif
  od
}

/* Principals are remembered for a while, and read anew at any moment after. */
#if CHANGES > 0
proctype Cache() {
end_fresh:
  do
  :: d_step { MAY_BE_HELD(0) && least[0] < cap_revision -> least[0] = cap_revision }
  :: d_step { MAY_BE_HELD(1) && least[1] < cap_revision -> least[1] = cap_revision }
  od
}
#endif

#if LOST_CAPS > 0
/* A value goes by itself. Known to pass: one that goes while a principal from before the first cap is still remembered. */
#ifdef BEFORE_ALL_KNOW
#define ALL_KNOW 1
#else
#define ALL_KNOW (least[0] > 0 && least[1] > 0)
#endif
proctype Loser() {
end_kept:
  do
  :: d_step { lost_caps > 0 && MONEY_OPEN && caps_there && ALL_KNOW -> lost_caps--; lose_counts() }
  od
}
#endif

#if DISPUTES > 0
/* One transaction, after the end: what the run was charged goes back by an ADJUST. */
proctype Judgement() {
end_no_dispute:
  d_step {
    disputes > 0 && runs[ADJUSTED].stage == COMMITTED && runs[ADJUSTED].cost > 0 && !entered[ADJUST] ->
    disputes--;
    refunded = runs[ADJUSTED].cost;
    SET_ADJUST(refunded);
    ledger = ledger + refunded;
    entered[ADJUST] = 1;
    pending[ADJUST] = 1;
    law()
  }
}
#endif

proctype Bookkeeper() {
  timeout ->
  assert(gone[0] || runs[0].stage == COMMITTED);
  assert(gone[1] || runs[1].stage == COMMITTED);
  assert(MONEY_OPEN && HOLDS == 0 && !pending[ADJUST]);
  assert(ledger == balance);
  assert(all_counted == all_used && day_counted == day_used)   /* nothing is lost for good */
}

init {
  atomic {
    run Owner(WORKER, 0);
    run Owner(SECOND_WORKER, 1);
#if STEALS > 0
    run Owner(RECONCILER, 0);
#endif
#if SLOW > 0
    run SlowHandler(SUBMITTER);
#endif
#if CHANGES > 0
    run Changer(CLAIMER);
#if CHANGERS > 1
    run Changer(SECOND_CLAIMER);
#endif
    run Cache();
#endif
#if LOST_CAPS > 0
    run Loser();
#endif
#if DISPUTES > 0
    run Judgement();
#endif
    run Replayer(DEAD_LETTERS);
    run Rebuilder(BYSTANDER);
    run Clock();
    run Bookkeeper()
  }
}
