/* How an actor carries out what its claim decided. */

/* The next life of a process. */
inline forget() {
  seen = 0;
  plan = NO_PLAN;
  taken = 0;
  answer = 0;
  won = 0
}

/* The claim is won. Settle or refund, commit. A finisher whose commit is lost reads again: where the claim is still its
   own a rebuild came between, and what it knows of the money is void. */
inline carry_out(r) {
  do
  :: atomic {
       if
       DIES
       :: MONEY_OPEN -> settle_or_refund(r)
       fi
     }
#ifdef COMMITS_WHAT_IT_KNEW
     do
     ::
#endif
     atomic {
       if
       DIES
       :: commit(r)
       fi;
       if
       :: won -> break
       :: else
       fi
     }
     atomic {
       if
       DIES
       :: runs[r].stage == CLAIMED && runs[r].token == me -> seen = runs[r].version
       :: else -> alive[me] = 0; break
       fi
     }
     atomic {
       if
       DIES
       :: retake_own(r)
       fi;
       if
       :: won
       :: else -> alive[me] = 0; break
       fi
     }
#ifdef COMMITS_WHAT_IT_KNEW
     od;
     break
#endif
  od
}
