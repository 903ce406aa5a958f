/* What a cap counts: caps:{tenant} in Redis, its part in each script, and how a rebuild counts it anew.

   One scope with two kinds of window: the day, which ends, and the total, which never does. Week and month end as the day
   does; a second scope is counted by the same steps in the same scripts. Its caller has the locals `day`, the date of the
   row as it was read, and `told`. */

#ifndef BEGINS              /* with the cap of this revision, put in force before the first run; 0: with none */
#define BEGINS 1
#endif

/* spend_caps: what each revision says. Two holds pass 15, a hold beside a charge fills it. */
#define NO_LIMIT 99
#define DAY_LIMIT(revision) (revision == 1 -> 15 : NO_LIMIT)
#define TOTAL_LIMIT(revision) (revision == 3 -> 15 : NO_LIMIT)

byte cap_revision = BEGINS; /* in Postgres; 0: no cap has ever been set */
byte answered = BEGINS;     /* the newest change that was answered as enforced */
byte least[RUNS] = BEGINS;  /* the revision that the principal of each run's handlers was read with */

bit caps_there = (BEGINS > 0);
byte caps_revision = BEGINS;
byte caps_day;              /* the date: 0 before the first hold */
short day_counted, day_used, all_counted, all_used;

/* Entries, charges taken and not committed, credits not applied; holds. A row says where each belongs. */
#define COUNTS(r) (runs[r].status != ABSENT)
#define IN_DAY(r, at) (COUNTS(r) && runs[r].day == at)
#define REFUNDED_OF(r) (r == ADJUSTED -> refunded : 0)
#define NET(r) (runs[r].stage == COMMITTED -> runs[r].cost - REFUNDED_OF(r) : 0)
#define USED(r) (NET(r) + TAKEN_NOT_COMMITTED(r) + (r == ADJUSTED -> NOT_APPLIED(ADJUST) : 0))
#define DAY_USED ((IN_DAY(0, caps_day) -> USED(0) : 0) + (IN_DAY(1, caps_day) -> USED(1) : 0))
#define DAY_HELD ((IN_DAY(0, caps_day) -> hold[0] : 0) + (IN_DAY(1, caps_day) -> hold[1] : 0))
#define ALL_USED (USED(0) + USED(1))
/* Of a hold whose row was dropped nothing says the date: the auditor rebuilds. */
#define COUNTS_ARE_SURE (MONEY_OPEN && caps_there && !HOLD_WITHOUT_RUN)

inline law_of_caps() {
  assert(!COUNTS_ARE_SURE || day_used == DAY_USED);
  assert(!COUNTS_ARE_SURE || day_counted == DAY_USED + DAY_HELD);
  assert(!COUNTS_ARE_SURE || all_used == ALL_USED);
  assert(!COUNTS_ARE_SURE || all_counted == ALL_USED + HOLDS)
}

/* What a run was charged, or can still be: once claimed no more than its intent, whatever a rebuild holds for it. */
#define MAY_COST(r) (runs[r].stage == COMMITTED -> NET(r) : (runs[r].stage == CLAIMED -> DUE(runs[r].intent) : hold[r]))
#define DAY_MAY_COST(at) ((runs[0].day == at -> MAY_COST(0) : 0) + (runs[1].day == at -> MAY_COST(1) : 0))

#ifdef NO_LEAST_REVISION
#define LEAST(r) 0
#else
#define LEAST(r) least[r]
#endif
#define LOST_FOR(r) (caps_there -> caps_revision < LEAST(r) : LEAST(r) > 0)
#define DAY_LEFT (DAY_LIMIT(caps_revision) - (day > caps_day -> 0 : day_counted))
#define IS_CAPPED (DAY_LEFT < HELD || TOTAL_LIMIT(caps_revision) - all_counted < HELD)
#define REFUSED_BY_CAPS(r) (LOST_FOR(r) || (caps_there && (day < caps_day || IS_CAPPED)))

/* In reserve.lua, where money would be held. */
inline refuse_by_caps(r) {
  if
  :: LOST_FOR(r) -> answer = CAPS_LOST
  :: else ->
     if
     :: day < caps_day -> answer = TOO_EARLY; told = caps_day
     :: else -> answer = CAPPED
     fi
  fi
}

inline count_hold(r) {
  if
  :: caps_there ->
     if
     :: day > caps_day -> caps_day = day; day_counted = 0; day_used = 0
     :: else
     fi;
     day_counted = day_counted + HELD;
     all_counted = all_counted + HELD;
     assert(DAY_MAY_COST(day) <= DAY_LIMIT(caps_revision));
     assert(MAY_COST(0) + MAY_COST(1) <= TOTAL_LIMIT(caps_revision))
  :: else
  fi;
  assert(answered == 0 || (caps_there && caps_revision >= answered))   /* no hold passes by a change that was answered */
}

/* In settle, refund_full and credit: to the window of the run's date, if it is still the one that is counted. */
inline count_end(date, back, took) {
  if
  :: caps_there ->
     all_counted = all_counted - (back);
     all_used = all_used + (took);
     if
     :: date == caps_day -> day_counted = day_counted - (back); day_used = day_used + (took)
     :: else
     fi
  :: else
  fi
}

/* A change, after its commit. */
inline caps_lua(revision) {
  d_step {
    if
#ifdef COUNTS_FROM_NOTHING
    :: !caps_there -> caps_there = 1; caps_revision = revision; answer = OK
#else
    :: !caps_there -> answer = CAPS_LOST
#endif
#ifndef OLDER_CHANGE_WINS
    :: caps_there && caps_revision >= revision -> answer = OK
#endif
    :: else -> caps_revision = revision; answer = OK
    fi;
    law()
  }
}

/* In the rebuild's snapshot: a scope's date is the later of today and its runs' newest, rows without a hold included. */
inline date_counts() {
  counted_day = today;
#ifndef REBUILD_TAKES_TODAY
  counted_day = (COUNTS(0) && runs[0].day > counted_day -> runs[0].day : counted_day);
  counted_day = (COUNTS(1) && runs[1].day > counted_day -> runs[1].day : counted_day);
#endif
  counted_revision = cap_revision
}

/* Rows that the snapshot holds or has ended keep date and cost; of a refund it knows what it has counted. */
#define NET_IN_SNAPSHOT(r) (counted_run[r] == COUNTED_RECEIPT -> \
                            runs[r].cost - (counted_credit[ADJUST] -> REFUNDED_OF(r) : 0) : 0)
#ifdef REBUILD_FORGETS_HOLDS
#define HOLD_TO_COUNT(r) 0
#else
#define HOLD_TO_COUNT(r) HELD_IN_SNAPSHOT(r)
#endif

inline write_counts_of(r) {
  all_used = all_used + NET_IN_SNAPSHOT(r);
  all_counted = all_counted + NET_IN_SNAPSHOT(r) + HOLD_TO_COUNT(r);
  if
  :: runs[r].day == caps_day ->
     day_used = day_used + NET_IN_SNAPSHOT(r);
     day_counted = day_counted + NET_IN_SNAPSHOT(r) + HOLD_TO_COUNT(r)
  :: else
  fi
}

inline lose_counts() {
  caps_there = 0; caps_revision = 0; caps_day = 0;
  day_counted = 0; day_used = 0; all_counted = 0; all_used = 0
}

inline write_counts() {
  lose_counts();
  if
  :: counted_revision > 0 ->
     caps_there = 1;
     caps_revision = counted_revision;
     caps_day = counted_day;
     write_counts_of(0);
     write_counts_of(1)
  :: else
  fi
}
