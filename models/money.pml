/* The money in Redis: budget/lua, one inline for each script; the gate and its epoch; and the rebuild in its four steps.

   A script is one step. A process calls one only while money is open: refused, it asks again or gives up. */

short balance = FUNDS;
byte hold[RUNS];            /* holds:{tenant} */
bit receipt[RUNS];          /* receipt:{run}, and what it says was charged */
byte charged[RUNS];
bit credited[2];            /* credit:{entry} */
byte epoch = 1;
byte epoch_gate = OPEN;
byte tenant_gate = OPEN;

#define MONEY_OPEN (epoch_gate == OPEN && tenant_gate == OPEN)

/* Sum of ledger = balance + holds + charges taken and not committed + credits not applied, whenever money is open. */
#define TAKEN_NOT_COMMITTED(r) (receipt[r] && runs[r].status != ABSENT && runs[r].stage != COMMITTED -> charged[r] : 0)
#define NOT_APPLIED(credit) (pending[credit] && !credited[credit] -> AMOUNT(credit) : 0)
#define CREDITS_NOT_APPLIED (NOT_APPLIED(TOP_UP) + NOT_APPLIED(ADJUST))
#define IS_WITHOUT_RUN(r) (hold[r] > 0 && (runs[r].status == ABSENT || runs[r].stage == COMMITTED))
#if RUNS == 1
#define HOLDS (hold[0])
#if PASTS > 0               /* a row that was lost before its hold came */
#define HOLD_WITHOUT_RUN IS_WITHOUT_RUN(0)
#else
#define HOLD_WITHOUT_RUN 0
#endif
#define ALL_TAKEN_NOT_COMMITTED TAKEN_NOT_COMMITTED(0)
#elif RUNS == 2
#define HOLDS (hold[0] + hold[1])
#define HOLD_WITHOUT_RUN (IS_WITHOUT_RUN(0) || IS_WITHOUT_RUN(1))
#define ALL_TAKEN_NOT_COMMITTED (TAKEN_NOT_COMMITTED(0) + TAKEN_NOT_COMMITTED(1))
#else
#define HOLDS (hold[0] + hold[1] + hold[2])
#define HOLD_WITHOUT_RUN (IS_WITHOUT_RUN(0) || IS_WITHOUT_RUN(1) || IS_WITHOUT_RUN(2))
#define ALL_TAKEN_NOT_COMMITTED (TAKEN_NOT_COMMITTED(0) + TAKEN_NOT_COMMITTED(1) + TAKEN_NOT_COMMITTED(2))
#endif
#define THE_LAW (ledger == balance + HOLDS + ALL_TAKEN_NOT_COMMITTED + CREDITS_NOT_APPLIED)

/* budget:evidence: what Redis heard that Postgres has committed; and what Postgres does not know of it (past.pml). */
#if PASTS > 0
bit heard_run;
bit heard_end;
bit heard_entry[2];
bit heard_adjusted;
bit adjusted;               /* what an operator entered when a loss was accepted */
#define RUN_IS_BEHIND (runs[0].status == ABSENT || runs[0].money == NONE)
#define END_IS_BEHIND (runs[0].stage == UNCLAIMED)
#define IS_BEHIND ((heard_run && RUN_IS_BEHIND) || (heard_end && END_IS_BEHIND) || \
                   (heard_entry[TOP_UP] && !entered[TOP_UP]) || \
                   (heard_entry[ADJUST] && !entered[ADJUST]) || (heard_adjusted && !adjusted))
#define HEAR_END heard_end = 1
#define HEAR_ENTRY(credit) heard_entry[credit] = 1
#else
#define IS_BEHIND 0
#define HEAR_END skip
#define HEAR_ENTRY(credit) skip
#endif

/* What a rebuild's snapshot says of a run. */
#define COUNTED_NOTHING 0
#define COUNTED_UNHELD 1
#define COUNTED_HOLD 2
#define COUNTED_RECEIPT 3
#define HELD_IN_SNAPSHOT(r) (counted_run[r] == COUNTED_HOLD -> HELD : 0)

#if CAPS == 0
#define COUNT_HOLD(r) skip
#define COUNT_END(back, took) skip
#define COUNT_CREDIT(credit) skip
#define WRITE_COUNTS skip
#else
#include "counts.pml"
#ifdef FINISHER_READS_THE_CLOCK
#define DATED today
#else
#define DATED day
#endif
#define COUNT_HOLD(r) count_hold(r)
#define COUNT_END(back, took) count_end(DATED, back, took)
#define COUNT_CREDIT(credit) \
  if \
  :: credit == ADJUST -> count_end(runs[ADJUSTED].day, AMOUNT(ADJUST), (0 - AMOUNT(ADJUST))) \
  :: else \
  fi
#define WRITE_COUNTS write_counts()
#endif

inline law() {
#if CAPS > 0
  law_of_caps();
#endif
#ifndef NO_RECEIPT          /* without receipts nothing remembers what was taken: judged at the end alone */
  assert(!MONEY_OPEN || IS_BEHIND || THE_LAW)   /* what the watch can see of a ledger from the past is no drift */
#else
  skip
#endif
}

inline reserve_lua(r) {
  d_step {
    if
    :: receipt[r] -> answer = ENDED
    :: !receipt[r] && hold[r] > 0 -> answer = OK
    :: !receipt[r] && hold[r] == 0 && balance < HELD -> answer = INSUFFICIENT
#if CAPS > 0
    :: !receipt[r] && hold[r] == 0 && balance >= HELD && REFUSED_BY_CAPS(r) -> refuse_by_caps(r)
#endif
    :: else -> balance = balance - HELD; hold[r] = HELD; answer = OK; COUNT_HOLD(r)
    fi;
    law()
  }
}

inline leave_receipt(r) {
#ifndef NO_RECEIPT
  receipt[r] = 1;
  charged[r] = taken;
#endif
  answer = OK
}

inline settle_lua(r, charge) {
  if
  :: receipt[r] ->
     taken = charged[r];
#ifdef SETTLE_COUNTS_AGAIN
     COUNT_END(0, taken);
#endif
     answer = OK
  :: !receipt[r] && hold[r] > 0 ->
     taken = (charge < hold[r] -> charge : hold[r]);
     balance = balance + hold[r] - taken;
     COUNT_END(hold[r] - taken, taken);
     hold[r] = 0;
     leave_receipt(r)
  :: else -> answer = NO_HOLD
  fi
}

/* Where there is no hold, the receipt is a tombstone: a reserve that comes late is refused. */
inline refund_full_lua(r) {
  if
  :: receipt[r] -> taken = charged[r]; answer = OK
#ifdef NO_RECEIPT
  :: hold[r] == 0 -> answer = NO_HOLD
  :: hold[r] > 0 ->
#else
  :: else ->
#endif
     taken = 0;
     balance = balance + hold[r];
     COUNT_END(hold[r], 0);
     hold[r] = 0;
     leave_receipt(r)
  fi
}

/* What a finisher does before it commits. Whoever finds neither hold nor receipt cannot price the run. */
inline settle_or_refund(r) {
  d_step {
    if
    :: REFUNDING(plan) -> refund_full_lua(r)
    :: else -> settle_lua(r, DUE(plan))
    fi;
#if PASTS > 0                /* the row may be older than its hold: the service rebuilds the tenant, the claim waits */
    if
    :: answer == NO_HOLD -> tenant_gate = CLOSED_BY(me)
    :: else -> HEAR_END
    fi;
#else
    assert(answer != NO_HOLD);
#endif
    law()
  }
}

/* `known` is the epoch read before the pending row was. */
inline credit_lua(credit) {
  d_step {
    if
    :: !MONEY_OPEN || epoch != known -> answer = ENDED
#ifdef NO_CREDIT_RECEIPT
    :: else -> balance = balance + AMOUNT(credit); credited[credit] = 1; answer = OK
#else
    :: else ->
       if
       :: !credited[credit] -> balance = balance + AMOUNT(credit); credited[credit] = 1; HEAR_ENTRY(credit); COUNT_CREDIT(credit)
       :: else
       fi;
       answer = OK
#endif
    fi;
    law()
  }
}

/* The rebuild. Its lease keeps a second one from working in vain; nothing rests on it, since it runs out under a rebuild
   that is frozen, and may wake up (rebuilds.pml). What orders two of them is who closed last: a token counts only while
   its gate is closed by it, and a tenant's only while all money is open. */

#ifdef NO_GATE
#define MAY_WRITE 1
#define MAY_OPEN 1
#else
#define MAY_OPEN (whole -> epoch_gate == CLOSED_BY(me) : tenant_gate == CLOSED_BY(me))
#ifdef NO_ORDER
#define MAY_WRITE MAY_OPEN
#else
#define MAY_WRITE (MAY_OPEN && (whole || epoch_gate == OPEN))
#endif
#endif

inline close_gate() {
#ifndef NO_GATE
  if
  :: whole -> epoch_gate = CLOSED_BY(me)
  :: else -> tenant_gate = CLOSED_BY(me)
  fi
#else
  skip
#endif
}

/* In batches, each a transaction of its own: here one for all, which is a step before the snapshot. */
inline fence_all() {
#ifndef NO_FENCE
  fence(0);
#if RUNS > 1
  fence(1);
#endif
#if RUNS > 2
  fence(2);
#endif
#endif
  skip
}

inline snapshot_of(r) {
  counted_run[r] = (runs[r].status == ABSENT -> COUNTED_NOTHING :
                    (runs[r].stage == COMMITTED -> COUNTED_RECEIPT :
                     (runs[r].money == RESERVED -> COUNTED_HOLD : COUNTED_UNHELD)))
}

/* One view of Postgres. The credits that the ledger total has counted get their receipts when it is written; their
   rows wait for the replay, which finds the receipts. */
inline snapshot() {
  snapshot_of(0);
  counted_money = ledger - HELD_IN_SNAPSHOT(0);
#if RUNS > 1
  snapshot_of(1);
  counted_money = counted_money - HELD_IN_SNAPSHOT(1);
#endif
#if RUNS > 2
  snapshot_of(2);
  counted_money = counted_money - HELD_IN_SNAPSHOT(2);
#endif
#if CAPS > 0
  date_counts();
#endif
  counted_credit[TOP_UP] = entered[TOP_UP];
  counted_credit[ADJUST] = entered[ADJUST];
#ifdef FORGETS_AT_THE_SNAPSHOT
  pending[TOP_UP] = 0;
  pending[ADJUST] = 0;
#endif
  skip
}

/* Holds are written anew; what a dropped run left in its receipt stays. */
inline write_run(r) {
  hold[r] = HELD_IN_SNAPSHOT(r);
  if
  :: counted_run[r] == COUNTED_RECEIPT -> receipt[r] = 1; charged[r] = runs[r].cost
  :: counted_run[r] == COUNTED_HOLD || counted_run[r] == COUNTED_UNHELD -> receipt[r] = 0; charged[r] = 0
  :: else
  fi
}

inline write_money() {
  balance = counted_money;
  write_run(0);
#if RUNS > 1
  write_run(1);
#endif
#if RUNS > 2
  write_run(2);
#endif
  WRITE_COUNTS;
  credited[TOP_UP] = credited[TOP_UP] || counted_credit[TOP_UP];
  credited[ADJUST] = credited[ADJUST] || counted_credit[ADJUST];
  if
  :: whole -> tenant_gate = OPEN
  :: else
  fi
}

inline open_gate() {
  if
  :: whole -> epoch_gate = OPEN; epoch++
  :: else -> tenant_gate = OPEN
  fi;
  law()
}

/* budget:rebuild. A rebuild that dies or freezes keeps it, until it runs out: at any moment, also under one that is slow.
   An unplugged host, or one that never thaws, does nothing any more. */
#ifdef LEASE
byte rebuilding = NOBODY;
byte freezes = LEASE;
#define LEASE_IS_FREE (rebuilding == NOBODY)
#define TAKES_IT ; rebuilding = me
#define GIVES_IT_BACK rebuilding = (rebuilding == me -> NOBODY : rebuilding);
#define FREEZES :: atomic { freezes > 0 && me == SECOND_BYSTANDER -> freezes--; goto end_frozen }
#else
#define LEASE_IS_FREE 1
#define TAKES_IT
#define GIVES_IT_BACK
#define FREEZES
#endif

#ifdef AT_ANY_MOMENT
#define MAY_REBUILD 1
#else
#define MAY_REBUILD MONEY_OPEN
#endif

/* A rebuild that dies leaves the gate closed, and the next one starts from the beginning. */
proctype Rebuilder(byte me) {
  short counted_money;
  byte counted_run[RUNS];
  bit counted_credit[2];
#if CAPS > 0
  byte counted_day, counted_revision;
#endif
  bit whole;

idle:
  counted_money = 0;
  counted_run[0] = 0;
#if RUNS > 1
  counted_run[1] = 0;
#endif
#if RUNS > 2
  counted_run[2] = 0;
#endif
#if CAPS > 0
  counted_day = 0;
  counted_revision = 0;
#endif
  counted_credit[TOP_UP] = 0;
  counted_credit[ADJUST] = 0;
  whole = 0;
end_nothing_to_rebuild:
  atomic {
    if
#if PASTS > 0               /* while it is behind it asks in vain: one state less to tell apart */
    :: LEASE_IS_FREE && me == BYSTANDER && epoch_gate != OPEN && (epoch_gate != CLOSED_AS_BEHIND || !IS_BEHIND) -> whole = 1
#else
    :: LEASE_IS_FREE && me == BYSTANDER && epoch_gate != OPEN -> whole = 1
#endif
    :: LEASE_IS_FREE && me == BYSTANDER && epoch_gate == OPEN && tenant_gate != OPEN -> whole = 0
    :: LEASE_IS_FREE && MAY_REBUILD && rebuilds > 0 -> rebuilds--; whole = 1
    :: LEASE_IS_FREE && MAY_REBUILD && rebuilds > 0 -> rebuilds--; whole = 0
#ifndef NO_HOLD_AUDIT
    :: LEASE_IS_FREE && MONEY_OPEN && HOLD_WITHOUT_RUN -> whole = 0     /* the auditor's (DPP-44) */
#endif
    fi
    TAKES_IT
  }
  if
  DIES
  :: d_step { close_gate() }
  fi;
#if PASTS > 0
#ifndef REBUILDS_UNASKED
  atomic {
    if
    :: IS_BEHIND -> epoch_gate = CLOSED_AS_BEHIND; goto idle
    :: else
    fi
  }
#endif
#endif
  if
  DIES
  FREEZES
  :: atomic { fence_all() }
  fi;
  if
  DIES
  FREEZES
  :: d_step { snapshot() }
  fi;
  atomic {
    if
    DIES
    FREEZES
    :: MAY_WRITE -> d_step { write_money() }
    :: !MAY_WRITE -> GIVES_IT_BACK goto idle
    fi
  }
  atomic {
    if
    DIES
    FREEZES
    :: MAY_OPEN -> d_step { open_gate() }
    :: !MAY_OPEN
    fi;
    GIVES_IT_BACK
    goto idle
  }
#ifdef LEASE
end_frozen:
  false
#endif
}

#if LOSSES > 0
/* Redis restarts, or fails over, with an older image. The first command on each new connection compares the server with
   the epoch and closes the gate: no script of ours runs on the image before. */
bit image_saved;
short image_balance;
byte image_hold[RUNS];
bit image_receipt[RUNS];
byte image_charged[RUNS];
bit image_credited[2];

inline save_image() {
  image_saved = 1;
  image_balance = balance;
  image_hold[0] = hold[0];
  image_receipt[0] = receipt[0];
  image_charged[0] = charged[0];
  image_credited[TOP_UP] = credited[TOP_UP];
  image_credited[ADJUST] = credited[ADJUST]
}

inline restore_image() {
  balance = image_balance;
  hold[0] = image_hold[0];
  receipt[0] = image_receipt[0];
  charged[0] = image_charged[0];
  credited[TOP_UP] = image_credited[TOP_UP];
  credited[ADJUST] = image_credited[ADJUST];
  tenant_gate = OPEN;
#ifndef NO_CHECK
  epoch_gate = CLOSED_BY_CHECK;
#endif
  image_saved = 0;
  image_balance = 0;
  image_hold[0] = 0;
  image_receipt[0] = 0;
  image_charged[0] = 0;
  image_credited[TOP_UP] = 0;
  image_credited[ADJUST] = 0
}
#endif
