/* The names of the model.

   Nothing here is a time. An age may be reached, a lease run out, a message come again at any moment, so what is
   proved rests on no constant of dpp_project.constants or runs.timing. */

/* What is sold. */
#define HELD 10
#define ACTUAL 5
#define MINIMUM 1
#define TOP_UP_AMOUNT 7

/* runs/states.py */
#define ABSENT 0
#define QUEUED 1
#define PROCESSING 2
#define COMPLETED 3
#define FAILED 4

#define NONE 0
#define RESERVED 1
#define SETTLED 2
#define REFUNDED 3

#define UNCLAIMED 0
#define CLAIMED 1
#define COMMITTED 2

/* runs/intents.py: the three ends; the last two differ in whether the idempotency key is free again. */
#define NO_PLAN 0
#define COMPLETES 1
#define FAILS 2
#define REFUNDS 3
#define REFUNDS_AND_FREES_THE_KEY 4
#define REFUNDING(plan) (plan == REFUNDS || plan == REFUNDS_AND_FREES_THE_KEY)
#define DUE(plan) (plan == COMPLETES -> ACTUAL : (plan == FAILS -> MINIMUM : 0))

/* A lease grows old before it runs out; renewing makes an old one fresh. */
#define EXPIRED 0
#define OLD 1
#define FRESH 2

/* budget/outcomes.py */
#define OK 1
#define INSUFFICIENT 2
#define ENDED 3
#define NO_HOLD 4
#define CAPPED 5
#define TOO_EARLY 6
#define CAPS_LOST 7

/* budget:epoch and budget:{tenant}:gate */
#define OPEN 0
#define CLOSED_BY_CHECK 1
#define CLOSED_BY(who) (2 + who)
#define CLOSED_AS_BEHIND 200

/* Who acts. The number is also the finalize_token, the lease token and the owner of the lock. */
#define NOBODY 255
#define SUBMITTER 0
#define SECOND_SUBMITTER 1
#define WORKER 2
#define SECOND_WORKER 3
#define CLAIMER 4
#define SECOND_CLAIMER 5
#define RECONCILER 6
#define SECOND_RECONCILER 7
#define DEAD_LETTERS 8
#define BYSTANDER 9          /* claims nothing */
#define SECOND_BYSTANDER 10
#define ACTORS 11
