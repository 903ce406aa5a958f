/* The rows in Postgres and their edges: runs/transitions.py, one inline for each function, by its name.

   An edge is one statement there and one d_step here. It is called by a process that has the locals `me`, `seen` (the
   version it read), `won` and `plan`; after a won edge `seen` is the row's new version. Conditions of age are left out:
   they may be true at any moment. */

typedef Run {
  byte status;
  byte money;
  byte stage;
  byte version;
  byte lease;
  byte leased_to;
  byte token;         /* finalize_token */
  byte intent;
  byte cost;          /* actual_cost_usd_micros */
#if CAPS > 0
  byte day;           /* spend_day */
#endif
  bit dead_lettered;
  bit fenced          /* the last step was a rebuild's fence: last_actor */
};

Run runs[RUNS];
#if CAPS > 0
byte today = 1;             /* by the database's clock */
byte refunded;              /* to a run that has ended, by a dispute's ADJUST */
#define ADJUSTED 0          /* the run that an ADJUST is of */
#endif
byte key_run = NOBODY;      /* who has the tenant's Idempotency-Key: the partial unique index */
short ledger = FUNDS;       /* the sum of ledger_entries */

#define TOP_UP 0
#define ADJUST 1
#if PASTS > 0 || CAPS > 0   /* a row from the past may be refunded over the receipt of its end; a dispute gives all back */
byte adjust_amount;
#define AMOUNT(credit) (credit == TOP_UP -> TOP_UP_AMOUNT : adjust_amount)
#define SET_ADJUST(micros) adjust_amount = micros
#else
#define AMOUNT(credit) (credit == TOP_UP -> TOP_UP_AMOUNT : ACTUAL - MINIMUM)
#define SET_ADJUST(micros) assert(micros == AMOUNT(ADJUST))
#endif
bit entered[2];             /* the entry is in the ledger */
bit pending[2];             /* and waits in pending_credits */

/* Not in any table: what the checks look at. */
bit alive[ACTORS];          /* still carries out its claim; a claim whose holder is not will grow old */
bit worked[RUNS];           /* a pack was begun */
byte charges[RUNS];

#define AS_SEEN(r) (runs[r].version == seen && runs[r].stage == UNCLAIMED)
#define UNHELD(r) (runs[r].status == QUEUED && runs[r].money == NONE)
#define WAITING(r) (runs[r].status == QUEUED && runs[r].money == RESERVED)

/* states.LEGAL */
#define IS_LEGAL(r) \
  ((runs[r].status == QUEUED && runs[r].money <= RESERVED && runs[r].stage <= CLAIMED) || \
   (runs[r].status == PROCESSING && runs[r].money == RESERVED && runs[r].stage <= CLAIMED) || \
   (runs[r].status >= COMPLETED && runs[r].money >= SETTLED && runs[r].stage == COMMITTED))

inline moved(r) {
  runs[r].version++;
#ifndef FENCES_ONCE
  runs[r].fenced = 0;
#endif
  seen = runs[r].version;
  won = 1;
  assert(IS_LEGAL(r))
}

/* From the request to the queue. */

inline accept(r) {
  d_step {
    runs[r].status = QUEUED;
    runs[r].money = NONE;
#if CAPS > 0
    day = (day > today -> day : today);                /* or later, by what the process has been told */
    runs[r].day = day;
#endif
    runs[r].version = 1;
    key_run = r;
    seen = 1;
    won = 1
  }
}

inline drop(r) {
  d_step {
    won = 0;
    if
    :: AS_SEEN(r) && UNHELD(r) ->
       runs[r].status = ABSENT;
       runs[r].version = 0;
       key_run = NOBODY;
       won = 1
    :: else
    fi
  }
}

inline resume(r) {
  d_step {
    won = 0;
    if
    :: AS_SEEN(r) && UNHELD(r) ->
#ifdef RESUME_REDATES
       runs[r].day = (today > runs[r].day -> today : runs[r].day);
#endif
       moved(r)
    :: else
    fi
  }
}

#if CAPS > 0
/* The same edge with a date. The script has refused the row's, and so has shown that nothing is held. */
inline redate(r, later) {
  d_step {
    won = 0;
    if
    :: AS_SEEN(r) && UNHELD(r) -> runs[r].day = later; moved(r)
    :: else
    fi
  }
}
#endif

inline reserve(r) {
  d_step {
    won = 0;
    if
    :: AS_SEEN(r) && UNHELD(r) -> runs[r].money = RESERVED; moved(r)
    :: else
    fi
  }
}

/* At work. */

#ifdef NO_GUARD
#define MAY_START(r) (runs[r].status == QUEUED)
#else
#define MAY_START(r) (WAITING(r) && runs[r].stage == UNCLAIMED)
#endif

inline start(r) {
  d_step {
    won = 0;
    if
    :: MAY_START(r) && runs[r].version == seen ->
       runs[r].status = PROCESSING;
       runs[r].lease = FRESH;
       runs[r].leased_to = me;
       worked[r] = 1;
       moved(r)
    :: else
    fi
  }
}

/* The only edge that leaves the version alone. */
inline renew(r) {
  d_step {
    won = 0;
    if
    :: runs[r].status == PROCESSING && runs[r].leased_to == me && runs[r].stage == UNCLAIMED &&
       runs[r].lease != EXPIRED ->
       runs[r].lease = FRESH;
       won = 1
    :: else
    fi
  }
}

/* The claim. */

inline claimed(r, decided) {
  runs[r].stage = CLAIMED;
  runs[r].token = me;
  runs[r].intent = decided;
  runs[r].lease = EXPIRED;  /* read no more: one state less to tell apart */
  runs[r].leased_to = 0;
  plan = decided;
  alive[me] = 1;
  moved(r)
}

inline claim_worked(r) {
  d_step {
    won = 0;
    if
    :: AS_SEEN(r) && runs[r].status == PROCESSING && runs[r].leased_to == me -> claimed(r, plan)
    :: else
    fi
  }
}

#define LEASE_EXPIRED(r) (runs[r].status == PROCESSING && runs[r].lease == EXPIRED && runs[r].stage == UNCLAIMED)
inline claim_lease_expired(r) {
  d_step {
    won = 0;
    if
    :: AS_SEEN(r) && LEASE_EXPIRED(r) -> claimed(r, FAILS)
    :: else
    fi
  }
}

inline claim_never_started(r) {
  d_step {
    won = 0;
    if
    :: AS_SEEN(r) && WAITING(r) -> claimed(r, REFUNDS)
    :: else
    fi
  }
}

inline claim_abandoned(r) {
  d_step {
    won = 0;
    if
    :: AS_SEEN(r) && UNHELD(r) -> claimed(r, REFUNDS_AND_FREES_THE_KEY)
    :: else
    fi
  }
}

inline claim_unsent(r) {
  d_step {
    won = 0;
    if
    :: AS_SEEN(r) && WAITING(r) -> claimed(r, REFUNDS_AND_FREES_THE_KEY)
    :: else
    fi
  }
}

inline claim_dead_lettered(r) {
  d_step {
    won = 0;
    if
    :: AS_SEEN(r) && WAITING(r) && runs[r].dead_lettered -> claimed(r, REFUNDS)
    :: else
    fi
  }
}

/* `plan` is what its caller decided from the status it read. */
inline claim_canceled(r) {
  d_step {
    won = 0;
    if
    :: AS_SEEN(r) && plan == REFUNDS && WAITING(r) -> claimed(r, REFUNDS)
    :: AS_SEEN(r) && plan == FAILS && runs[r].status == PROCESSING -> claimed(r, FAILS)
    :: else
    fi
  }
}

/* From the claim to the end. */

/* Of a claim that has grown old: its holder is gone, or slow (bounded by `steals`). */
#define OLD_CLAIM(r) (runs[r].stage == CLAIMED && (!alive[runs[r].token] || (steals > 0 && runs[r].token != me)))
inline retake(r) {
  d_step {
    won = 0;
    if
    :: runs[r].version == seen && runs[r].stage == CLAIMED ->
       runs[r].token = me;
       plan = runs[r].intent;
       alive[me] = 1;
       moved(r)
    :: else
    fi
  }
}

/* Of a claim that is one's own, but whose version a rebuild has raised. */
inline retake_own(r) {
  d_step {
    won = 0;
    if
    :: runs[r].version == seen && runs[r].stage == CLAIMED && runs[r].token == me -> moved(r)
    :: else
    fi
  }
}

inline reintend(r) {
  d_step {
    won = 0;
    if
    :: runs[r].version == seen && runs[r].token == me && runs[r].stage == CLAIMED && runs[r].intent == COMPLETES ->
       runs[r].intent = FAILS;
       plan = FAILS;
       moved(r)
    :: else
    fi
  }
}

#ifdef NO_INTENT
#define DECIDED(r) plan
#else
#define DECIDED(r) runs[r].intent
#endif

/* `taken` is what the receipt said. What was taken too much goes back by an ADJUST, which waits in pending_credits. */
inline commit(r) {
  d_step {
    won = 0;
    if
    :: runs[r].version == seen && runs[r].token == me && runs[r].stage == CLAIMED ->
       runs[r].status = (DECIDED(r) == COMPLETES -> COMPLETED : FAILED);
       runs[r].money = (REFUNDING(DECIDED(r)) -> REFUNDED : SETTLED);
       runs[r].cost = (taken > DUE(DECIDED(r)) -> DUE(DECIDED(r)) : taken);
       runs[r].stage = COMMITTED;
       ledger = ledger - runs[r].cost;
       if
       :: taken > runs[r].cost -> SET_ADJUST((taken - runs[r].cost)); entered[ADJUST] = 1; pending[ADJUST] = 1
       :: else
       fi;
       if
       :: DECIDED(r) == REFUNDS_AND_FREES_THE_KEY && key_run == r -> key_run = NOBODY
       :: else
       fi;
       if
       :: taken > 0 -> charges[r]++
       :: else
       fi;
       assert(charges[r] <= 1);
       alive[me] = 0;
       moved(r);
       law()
    :: else
    fi
  }
}

/* Beside the edges: the version stays. */

#define SEND_DUE(r) (WAITING(r) && runs[r].stage == UNCLAIMED && !runs[r].dead_lettered)
inline mark_dead_lettered(r) {
  d_step {
    won = 0;
    if
    :: WAITING(r) && runs[r].stage == UNCLAIMED && !runs[r].dead_lettered -> runs[r].dead_lettered = 1; won = 1
    :: else
    fi
  }
}

/* A process under way then loses its compare-and-set. A row that has not moved since its last fence needs no other: only
   a process that read it since knows its version, and that one takes a step (retake, resume) before it moves money. Two
   fences at once, or one that tries a batch again, may raise it all the same. */
inline fence(r) {
  if
  :: runs[r].stage == CLAIMED || (UNHELD(r) && runs[r].stage == UNCLAIMED) -> runs[r].version++; runs[r].fenced = 1
  :: runs[r].fenced || !(runs[r].stage == CLAIMED || (UNHELD(r) && runs[r].stage == UNCLAIMED))
  fi
}
