"""Holds without an open run, of a tenant that never stands still: one by one, since its law cannot be proved.

A hold has a row before it is made, and is gone before its run is committed. So one that is seen, whose row was then
absent or COMMITTED, and that still stands afterwards belongs to no run. Only a row that is dropped for want of money at
this very moment may look so, beside a double of its own submit; then the tenant is rebuilt for nothing.

It says nothing of the balance, nor of runs without their hold: who ends such a run finds that out.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import redis

from budget import ports
from budget.money import stored_micros
from budget.redis import keys, scripts, view
from budget.verification.verify import Difference, DifferenceKind, Proof, Verdict

AT_ONCE: Final = 1_000


def proof_of_single_holds(tenant_id: str) -> Proof:
    """DIFFERS with each such hold, else UNSETTLED: that none was found proves nothing.

    Raises RedisError or DatabaseError where a service does not answer.
    """
    client = scripts.shared_scripts().client
    mark = view.look_at_balance(client, tenant_id).mark
    if not mark.is_open() or mark.gate is not None:  # it is being rebuilt, or waits for it
        return Proof(tenant_id, Verdict.UNSETTLED)
    found = tuple(_strays(client, tenant_id))
    return Proof(tenant_id, Verdict.DIFFERS if found else Verdict.UNSETTLED, found)


def _strays(client: redis.Redis, tenant_id: str) -> Iterator[Difference]:
    name = keys.holds_key(tenant_id)
    held = (str(run_id) for run_id, _ in client.hscan_iter(name, count=AT_ONCE))
    while some := list(islice(held, AT_ONCE)):
        still_open = ports.open_runs().still_open(run_ids=some)
        if not (closed := [run_id for run_id in some if run_id not in still_open]):
            continue
        stand: Any = client.hmget(name, closed)
        for run_id, micros in zip(closed, stand, strict=True):
            if micros is not None:
                yield Difference(DifferenceKind.HOLD_WITHOUT_RUN, 0, stored_micros(micros) or 0, run_id)
