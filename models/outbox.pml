/* One event, from the fact that it tells of to its effect: outbox, queue, ledger (dpp_project/outbox/).

   A statement or transaction in Postgres is one step, and so is a request to the queue. Before each the process may die.
   Messages may be lost, doubled, come late or early, and be received by two at once: a message is invisible for no time
   here. A claim may be taken over from one that lives and is slow. */

#define NOBODY 255

/* outbox_message.status and processed_message.status */
#define ABSENT 0
#define PENDING 1
#define PROCESSING 2
#define PUBLISHED 3
#define RETRY_WAIT 3
#define DONE 4
#define DEAD 5

/* What a publisher hears of its send. */
#define UNHEARD 0
#define SENT 1
#define FAILED 2               /* this message was not taken, or its answer was lost */
#define AWAY 3                 /* the queue did not answer */
#define REFUSED 4              /* its content is not for the queue */

#define WRITER 0
#define PUBLISHER 1
#define SECOND_PUBLISHER 2
#define CONSUMER 3
#define SECOND_CONSUMER 4
#define BYSTANDER 5
#define ACTORS 6

#define MESSAGES 3
#define NO_MESSAGE 3
#define MAX_RETRIES 1

#include "faults.pml"

#ifndef LOST                   /* messages that vanish, sent or received */
#define LOST 0
#endif
#ifndef DOUBLED                /* sends that the queue takes twice */
#define DOUBLED 0
#endif
#ifndef FAILURES               /* sends of which a failure is heard; taken all the same, or not */
#define FAILURES 0
#endif
#ifndef OUTAGES                /* sends into a queue that is away */
#define OUTAGES 0
#endif
#ifndef RAISES                 /* failures of the handler that may pass */
#define RAISES 0
#endif
#ifndef REFUSALS               /* the handler says: never */
#define REFUSALS 0
#endif
#ifndef LETTERS                /* messages that the queue gives up */
#define LETTERS 0
#endif
#ifndef REDRIVES               /* a person has a dead event handled anew */
#define REDRIVES 0
#endif
#ifndef UNSENDABLE
#define UNSENDABLE 0
#endif
#ifndef CONSUMERS
#define CONSUMERS 2
#endif
#ifndef PUBLISHERS
#define PUBLISHERS 2
#endif

byte alive[ACTORS];
byte lost = LOST;
byte doubled = DOUBLED;
byte failures = FAILURES;
byte outages = OUTAGES;
byte raises = RAISES;
byte refusals = REFUSALS;
byte letters = LETTERS;
byte redrives = REDRIVES;

bit fact;

byte outbox;                   /* the row's status; ABSENT: it is not written */
byte owner = NOBODY;           /* processing_owner */
byte tries;                    /* retry_count of the outbox */
bit handled;                   /* handled_at */

bit there[MESSAGES];
byte holds[ACTORS] = NO_MESSAGE;   /* the message that a consumer has a receipt of */
bit dlq;

byte ledger;                   /* the row's status */
byte lease_owner = NOBODY;
bit lease_over;
bit due;                       /* next_retry_at has come */
byte retries;                  /* retry_count of the ledger */

byte effects;
bit followed;                  /* the follow-up event is written */
bit stored;                    /* a dead letter stands, and waits for a person */

/* What really happened, for the rules of the dead letters. */
byte raised;
byte failed;
bit said_never;
bit received_too_often;

/* The queue. */

inline put() {
  if
  :: !there[0] -> there[0] = 1
  :: there[0] && !there[1] -> there[1] = 1
  :: there[0] && there[1] && !there[2] -> there[2] = 1
  fi
}
#define ROOM (!there[0] || !there[1] || !there[2])
#define ROOM_FOR_TWO (there[0] + there[1] + there[2] < 2)

/* A receipt is of one message: once it is gone, the receipt does nothing. */
inline vanish(m) {
  there[m] = 0;
  if
  :: holds[CONSUMER] == m -> holds[CONSUMER] = NO_MESSAGE
  :: else
  fi;
  if
  :: holds[SECOND_CONSUMER] == m -> holds[SECOND_CONSUMER] = NO_MESSAGE
  :: else
  fi
}

inline delete() {
  d_step {
    if
    :: holds[me] != NO_MESSAGE -> slot = holds[me]; vanish(slot); slot = 0
    :: else
    fi
  }
}

/* The ledger: dpp_project/outbox/ledger.py, one inline for each of its steps. */

#define MINE (ledger == PROCESSING && lease_owner == me)
#ifdef NO_LEASE_END
#define LEASE_IS_OVER (false)
#else
#define LEASE_IS_OVER (ledger == PROCESSING && lease_over)
#endif
#define CLAIMABLE (ledger == PENDING || (ledger == RETRY_WAIT && due) || LEASE_IS_OVER)

inline ensure_row_exists() {
  if
  :: ledger == ABSENT -> ledger = PENDING
  :: else
  fi
}

inline let_go() { lease_owner = NOBODY; lease_over = 0; alive[me] = 0 }

inline claim() {
  ledger = PROCESSING;
  lease_owner = me;
  lease_over = 0;
  due = 0;
  alive[me] = 1
}

inline wait() {
  ledger = RETRY_WAIT;
  retries++;
  due = 0;
  let_go()
}

inline hand_back() {
  ledger = PENDING;
  let_go()
}

/* With `handled_at`, by one statement. */
inline done() {
  ledger = DONE;
#ifndef HANDLED_APART
  handled = 1;
#endif
  let_go()
}

/* With its letter, in one transaction. */
inline dead() {
  ledger = DEAD;
  handled = 1;
#ifndef LETTER_APART
  stored = 1;
#endif
  let_go()
}

/* The fact and its event are one statement. */
proctype Writer(byte me) {
  if
  :: false -> goto idle
  :: else
  fi;
  atomic {
    if
    DIES
    :: d_step {
         fact = 1;
#ifndef EVENT_APART
         outbox = PENDING
#endif
       }
    fi
  }
#ifdef EVENT_APART
  if
  DIES
  :: outbox = PENDING
  fi;
#endif
idle:
  skip
}

/* dpp_project/outbox/publisher.py */
inline give_up_sending() {
  outbox = DEAD;
  stored = 1;
  assert(UNSENDABLE || failed > MAX_RETRIES)
}

proctype Publisher(byte me) {
  byte heard, known;

idle:
  heard = UNHEARD;
  known = 0;
end_nothing_due:
  atomic {
    outbox == PENDING ->
    outbox = PROCESSING;
    owner = me;
    alive[me] = 1;
    known = tries
  }
  atomic {
    if
    DIES
    :: UNSENDABLE -> heard = REFUSED
    :: !UNSENDABLE && ROOM -> put(); heard = SENT
    :: !UNSENDABLE && ROOM_FOR_TWO && doubled > 0 -> doubled--; put(); put(); heard = SENT
    :: !UNSENDABLE && lost > 0 -> lost--; heard = SENT
    :: !UNSENDABLE && failures > 0 -> failures--; failed++; heard = FAILED
    :: !UNSENDABLE && ROOM && failures > 0 -> failures--; failed++; put(); heard = FAILED
    :: !UNSENDABLE && outages > 0 -> outages--; heard = AWAY
    fi
  }
  atomic {
    if
    DIES
#ifdef FINALIZES_ANYONES
    :: d_step {
         if
         :: true ->
#else
    :: d_step {
         if
         :: outbox != PROCESSING || owner != me              /* taken over: nothing is said */
         :: outbox == PROCESSING && owner == me ->
#endif
            owner = NOBODY;
            if
            :: heard == SENT -> outbox = PUBLISHED; tries = 0; failed = 0
#ifdef OUTAGES_COUNT
            :: heard == AWAY && known >= MAX_RETRIES -> give_up_sending()
            :: heard == AWAY && known < MAX_RETRIES -> outbox = PENDING; tries = known + 1
#else
            :: heard == AWAY -> outbox = PENDING
#endif
            :: heard == FAILED && known < MAX_RETRIES -> outbox = PENDING; tries = known + 1
            :: (heard == FAILED && known >= MAX_RETRIES) || heard == REFUSED -> give_up_sending()
            fi
         fi
       }
    fi
  }
  alive[me] = 0;
  goto idle
}

/* dpp_project/outbox/consumer.py */
proctype Consumer(byte me) {
  byte slot;

idle:
  holds[me] = NO_MESSAGE;
end_no_message:
  atomic {
    if
    :: there[0] -> holds[me] = 0
    :: there[1] -> holds[me] = 1
    :: there[2] -> holds[me] = 2
    fi
  }
#ifdef DELETES_FIRST
  if
  DIES
  :: delete()
  fi;
#endif
#ifdef NO_CLAIM
  goto take_effect;
#endif
  atomic {
    if
    DIES
    :: d_step { ensure_row_exists() }
    fi
  }
  atomic {
    if
    DIES
    :: CLAIMABLE -> claim()
    :: !CLAIMABLE && (ledger == DONE || ledger == DEAD) -> goto remove
#ifdef EARLY_COUNTS
    :: ledger == RETRY_WAIT && !due -> claim(); goto fail
#endif
    :: !CLAIMABLE && ledger != DONE && ledger != DEAD -> goto not_ours
    fi
  }
take_effect:
  atomic {
    if
    DIES
#ifdef NO_CLAIM
    :: effects++; assert(effects <= 1); followed = 1; ledger = DONE; handled = 1; goto remove
#endif
#ifdef EFFECT_APART
    :: MINE -> effects++; assert(effects <= 1); followed = 1
#else
#ifdef DONE_UNASKED
    :: true -> effects++; assert(effects <= 1); followed = 1; done(); goto remove
#else
    :: MINE -> effects++; assert(effects <= 1); followed = 1; done(); goto behind
#endif
#endif
    :: !MINE -> goto not_ours
    :: raises > 0 -> raises--; raised++; goto fail
    :: refusals > 0 -> refusals--; said_never = 1; goto refused_for_good
    :: outages > 0 && MINE -> outages--; hand_back(); goto idle       /* Postgres was away for a moment */
    fi
  }
#ifdef EFFECT_APART
  atomic {
    if
    DIES
    :: MINE -> done(); goto behind
    :: !MINE -> goto not_ours
    fi
  }
#endif
fail:
  atomic {
    if
    DIES
    :: MINE && retries < MAX_RETRIES -> wait()
    :: MINE && retries == MAX_RETRIES -> dead(); assert(raised > MAX_RETRIES); goto behind_dead
    :: !MINE -> goto not_ours
    fi
  }
#ifdef RUNG_DELETES_FIRST
  if
  DIES
  :: delete()
  fi;
#endif
  atomic {                                             /* the next rung of the ladder, then the old one goes */
    if
    DIES
    :: ROOM -> put()
    :: lost > 0 -> lost--
    :: failures > 0 -> failures--; goto idle           /* the old one waits in its place */
    fi
  }
  goto remove;
refused_for_good:
  atomic {
    if
    DIES
    :: MINE -> dead(); assert(said_never)
    :: !MINE -> goto not_ours
    fi
  }
behind_dead:
#ifdef LETTER_APART
  if
  DIES
  :: stored = 1
  fi;
#endif
  goto remove;
behind:
#ifdef HANDLED_APART
  if
  DIES
  :: handled = 1
  fi;
#endif
  goto remove;
not_ours:
  if
  :: ledger == DONE || ledger == DEAD -> goto remove
#ifdef LOSER_DELETES
  :: ledger != DONE && ledger != DEAD -> goto remove
#else
  :: ledger != DONE && ledger != DEAD -> goto idle     /* invisible until the lease is over, or it is due */
#endif
  fi;
remove:
  if
  DIES
  :: delete()
  fi;
  goto idle
}

/* dpp_project/outbox/resending.py and the job that drains the queue's dead letters: beat, and a person. */

#ifdef NO_RESEND
#define OVERDUE (false)
#else
#ifdef RESEND_ASKS_THE_LEDGER
#define OVERDUE (outbox == PUBLISHED && !handled && ledger == ABSENT)
#else
#define OVERDUE (outbox == PUBLISHED && !handled)
#endif
#endif

inline take_over() {
  outbox = PENDING;
  owner = NOBODY;
#ifdef TAKEOVER_COUNTS
  if
  :: tries < MAX_RETRIES -> tries++
  :: else -> outbox = DEAD; stored = 1; assert(UNSENDABLE || failed > MAX_RETRIES)
  fi
#endif
}

inline send_overdue() { outbox = PENDING }

/* An event that the queue refused may have been handled all the same: an answer was late. */
#ifdef REDRIVES_WHAT_IS_DONE
#define MAY_REDRIVE ((ledger == DEAD || outbox == DEAD) && ledger != PROCESSING)
#else
#define MAY_REDRIVE ((ledger == DEAD || outbox == DEAD) && ledger != PROCESSING && ledger != DONE)
#endif

inline handle_anew() {
  ledger = (ledger == ABSENT -> ABSENT : PENDING);
  retries = 0;
  outbox = (outbox == PROCESSING -> PROCESSING : PENDING);
  tries = 0;
  handled = 0;
  stored = 0;
  raised = 0;
  failed = 0
}

#define HELD_TOO_LONG (outbox == PROCESSING && (!alive[owner] || steals > 0))

proctype Beat(byte me) {
  byte slot;

end_nothing_due:
idle:
  do
#ifndef NO_TAKEOVER
  :: atomic {
       HELD_TOO_LONG ->
       if
       :: alive[owner] -> steals--
       :: else
       fi;
       take_over()
     }
#endif
#ifndef LIVENESS
  :: atomic { timeout && OVERDUE -> send_overdue() }       /* nothing else can happen, however long it takes */
  :: atomic { OVERDUE && doubled > 0 -> doubled--; send_overdue() }   /* and by the clock alone */
#else
  :: atomic { OVERDUE && !(there[0] || there[1] || there[2]) -> send_overdue() }
#endif
#if LETTERS
  :: atomic {                                              /* dpp_project/outbox/dead_queue.py */
       dlq ->
       if
       :: LEASE_IS_OVER -> claim()
       :: else -> dlq = 0; goto idle                       /* it has ended, or goes on without this message */
       fi
     }
     atomic {
       if
       DIES
       :: MINE -> dead(); assert(received_too_often); dlq = 0
       :: !MINE -> dlq = 0
       fi
     }
#endif
#if REDRIVES
  :: atomic { stored && redrives > 0 && MAY_REDRIVE -> redrives--; handle_anew() }
#endif
  od
}

/* Time, and what breaks by itself. */
proctype World() {
  byte slot;

end_world:
  do
  :: d_step { ledger == RETRY_WAIT && !due -> due = 1 }
  :: d_step { ledger == PROCESSING && !lease_over && !alive[lease_owner] -> lease_over = 1 }
  :: d_step { ledger == PROCESSING && !lease_over && alive[lease_owner] && steals > 0 -> steals--; lease_over = 1 }
  :: d_step { lost > 0 && there[0] -> lost--; vanish(0) }
  :: d_step { lost > 0 && there[1] -> lost--; vanish(1) }
#if LETTERS
  :: d_step { letters > 0 && there[0] && !dlq -> letters--; received_too_often = 1; dlq = 1; vanish(0) }
#endif
  od
}

#define HAS_ENDED (handled || outbox == DEAD)

/* Nobody can move any more. */
proctype Judge() {
  timeout && !OVERDUE ->
  assert(!fact || outbox != ABSENT);                       /* both or neither */
  assert(fact || outbox == ABSENT);
  assert(!fact || HAS_ENDED);                              /* nothing is stuck */
  assert(!fact || effects == 1 || stored);                 /* none is lost */
  assert(effects == 0 || (ledger == DONE && followed));
  assert(!there[0] && !there[1] && !there[2] && !dlq);
  assert(outbox != PROCESSING && outbox != PENDING);
  assert(!stored || ledger == DEAD || outbox == DEAD)
}

#ifdef LIVENESS
ltl every_event_ends { [] (fact -> <> HAS_ENDED) }
#endif

init {
  atomic {
    run Writer(WRITER);
    run Publisher(PUBLISHER);
#if PUBLISHERS > 1
    run Publisher(SECOND_PUBLISHER);
#endif
    run Consumer(CONSUMER);
#if CONSUMERS > 1
    run Consumer(SECOND_CONSUMER);
#endif
    run Beat(BYSTANDER);
    run World();
#ifndef LIVENESS
    run Judge()
#endif
  }
}
