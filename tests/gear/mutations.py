"""The planted faults: each breaks one promise, and names the tests that must notice."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]

    def applied(self, source: str) -> str:
        if source.count(self.before) != 1:
            raise ValueError(f"{self.name}: its place stands {source.count(self.before)} times in {self.file}")
        return source.replace(self.before, self.after)


EDGES = ("tests/integration/test_transitions_edges.py", "tests/integration/test_transitions_ends.py")
ENDS = ("tests/integration/test_transitions_ends.py",)
SCRIPTS = ("tests/contract/test_money_scripts.py",)
REPLAYS = ("tests/integration/test_idempotency_replay.py",)
RIVALS = ("tests/race/test_submit_rivals.py",)
WINDOWS = ("tests/crash/test_submit_windows.py",)
EXECUTED = ("tests/integration/test_execution_runs.py",)
RECONCILED = ("tests/integration/test_reconciler_claims.py",)
CANCELED = ("tests/integration/test_cancel_runs.py",)
LEASES = ("tests/integration/test_lease_keeper.py",)

TRANSITIONS = "runs/transitions.py"
FINALIZATION = "runs/finalization.py"
SUBMISSION = "runs/submission.py"
IDEMPOTENCY = "runs/idempotency.py"
EXECUTION = "runs/execution.py"


def script(name: str) -> str:
    return f"budget/lua/{name}.lua"


MUTANTS: tuple[Mutant, ...] = (
    # Who may move a row.
    Mutant(
        "an edge forgets the version it saw",
        TRANSITIONS,
        "return Q(run_id=run_id, version=version, finalize_stage__isnull=True)",
        "return Q(run_id=run_id, finalize_stage__isnull=True)",
        EDGES,
    ),
    Mutant(
        "an edge moves a claimed row",
        TRANSITIONS,
        "return Q(run_id=run_id, version=version, finalize_stage__isnull=True)",
        "return Q(run_id=run_id, version=version)",
        EDGES,
    ),
    Mutant(
        "a worker starts a run whose money is not held",
        TRANSITIONS,
        "Run.objects.filter(_unclaimed(run_id, version), _WAITING).update(\n            status=Status.PROCESSING,",
        "Run.objects.filter(_unclaimed(run_id, version)).update(\n            status=Status.PROCESSING,",
        EDGES,
    ),
    Mutant(
        "a dead lease is revived",
        TRANSITIONS,
        "   AND runs.finalize_stage IS NULL AND runs.lease_expires_at >= statement_timestamp()\n",
        "   AND runs.finalize_stage IS NULL\n",
        (*EDGES, *LEASES),
    ),
    Mutant(
        "a claimed run's lease is renewed",
        TRANSITIONS,
        "   AND runs.finalize_stage IS NULL AND runs.lease_expires_at",
        "   AND runs.lease_expires_at",
        (*EDGES, *LEASES),
    ),
    Mutant(
        "a worker claims with another's lease",
        TRANSITIONS,
        "guard = _unclaimed(run_id, version) & _PROCESSING & Q(lease_token=lease_token)",
        "guard = _unclaimed(run_id, version) & _PROCESSING",
        EDGES,
    ),
    Mutant(
        "the reaper takes a live lease",
        TRANSITIONS,
        "guard = _unclaimed(run_id, version) & _PROCESSING & Q(lease_expires_at__lt=Now())",
        "guard = _unclaimed(run_id, version) & _PROCESSING",
        EDGES,
    ),
    Mutant(
        "the sweeper takes a run of this minute",
        TRANSITIONS,
        " & _WAITING & Q(created_at__lt=_seconds_ago(RESERVATION_TTL_SECONDS))\n",
        " & _WAITING\n",
        EDGES,
    ),
    Mutant(
        "a submit is called abandoned while it runs",
        TRANSITIONS,
        " & _UNHELD & Q(updated_at__lt=_seconds_ago(timing.ABANDONED_AFTER_SECONDS))\n",
        " & _UNHELD\n",
        EDGES,
    ),
    Mutant(
        "a young claim is taken over",
        TRANSITIONS,
        "right = Q(finalize_claimed_at__lt=_seconds_ago(timing.RECONCILE_AFTER_SECONDS))",
        "right = Q()",
        ENDS,
    ),
    Mutant(
        "a failure is decided again",
        TRANSITIONS,
        "            intent_status=Status.COMPLETED,\n        ).update(",
        "        ).update(",
        ENDS,
    ),
    Mutant(
        "a drop takes a row whose money is held",
        TRANSITIONS,
        "Run.objects.filter(_unclaimed(run_id, version), _UNHELD).delete()",
        "Run.objects.filter(_unclaimed(run_id, version)).delete()",
        EDGES,
    ),
    # How a run ends.
    Mutant(
        "a commit forgets whose claim it was",
        TRANSITIONS,
        "AND version = %(version)s AND finalize_token = %(token)s\n",
        "AND version = %(version)s\n",
        ENDS,
    ),
    Mutant(
        "a commit forgets the version",
        TRANSITIONS,
        "AND version = %(version)s AND finalize_token = %(token)s\n",
        "AND finalize_token = %(token)s\n",
        ENDS,
    ),
    Mutant(
        "every end frees its key",
        TRANSITIONS,
        "CASE WHEN intent_reason_code = ANY(%(frees)s::text[]) THEN NULL ELSE idempotency_key END",
        "NULL",
        ENDS,
    ),
    Mutant(
        "no end frees its key",
        TRANSITIONS,
        "CASE WHEN intent_reason_code = ANY(%(frees)s::text[]) THEN NULL ELSE idempotency_key END",
        "idempotency_key",
        ENDS,
    ),
    Mutant(
        "a rebuild fences nobody",
        TRANSITIONS,
        "    runs = Run.objects.filter(between)\n",
        "    runs = Run.objects.filter(between).none()\n",
        ENDS,
    ),
    Mutant(
        "a lost result is charged in full",
        TRANSITIONS,
        'intent_charge_usd_micros=Least(F("minimum_fee_usd_micros"), F("reservation_max_cost_usd_micros")),',
        'intent_charge_usd_micros=F("reservation_max_cost_usd_micros"),',
        ENDS,
    ),
    Mutant(
        "the sum of a refund is settled",
        FINALIZATION,
        "    if claim.money_state is MoneyState.REFUNDED:\n",
        "    if claim.money_state is MoneyState.NONE:\n",
        (*CANCELED, *RIVALS),
    ),
    Mutant(
        "a claim whose money waits is called lost",
        FINALIZATION,
        "closed=moved.closed)\n            return Finish.WAITING\n",
        "closed=moved.closed)\n            return Finish.LOST\n",
        (*CANCELED, *RECONCILED),
    ),
    Mutant(
        "a finisher gives up after a rebuild",
        FINALIZATION,
        "TURNS: Final = 3\n",
        "TURNS: Final = 1\n",
        RECONCILED,
    ),
    Mutant(
        "a loser goes on with another's claim",
        FINALIZATION,
        "finalize_stage=Stage.CLAIMED, finalize_token=claim.token).first()",
        "finalize_stage=Stage.CLAIMED).first()",
        (*RECONCILED, *EXECUTED),
    ),
    # How a run begins.
    Mutant(
        "another request under a key is answered with the first's receipt",
        SUBMISSION,
        "        if run.payload_hash != self._asked.payload.sha256:\n",
        "        if run.payload_hash is None:\n",
        REPLAYS,
    ),
    Mutant(
        "a resumer goes on without the row",
        SUBMISSION,
        "        if transitions.resume(run_id=run.run_id, version=run.version, actor=ACTOR) is Outcome.LOST:\n",
        "        if transitions.resume(run_id=run.run_id, version=run.version, actor=ACTOR) is None:\n",
        (*RIVALS, *WINDOWS),
    ),
    Mutant(
        "a failed send is called a success",
        SUBMISSION,
        "            if (refusal := self._take_back(row)) is not None:\n",
        "            if (refusal := None) is not None:\n",
        RIVALS,
    ),
    Mutant(
        "a failed send ends what a worker has started",
        SUBMISSION,
        "            if run is None or run.status != Status.QUEUED or run.finalize_stage is not None:\n"
        "                return None\n",
        "",
        RIVALS,
    ),
    Mutant(
        "a key that is being freed is answered as if it stood",
        SUBMISSION,
        "        if run.finalize_stage == Stage.CLAIMED and run.intent_reason_code in FREES_ITS_KEY:\n",
        "        if run.finalize_stage is None and run.intent_reason_code in FREES_ITS_KEY:\n",
        REPLAYS,
    ),
    Mutant(
        "the lock is released whoever holds it",
        IDEMPOTENCY,
        '    _try(lambda: _script("unlock")(keys=[door.lock_name], args=[door.token]), "lock not released")',
        '    _try(lambda: connection.client().delete(door.lock_name), "lock not released")',
        REPLAYS,
    ),
    Mutant(
        "the mapping outlives its key",
        IDEMPOTENCY,
        "created_at_ms // 1_000 + IDEMPOTENCY_MAPPING_TTL_SECONDS\n",
        "created_at_ms // 1_000 + 2 * IDEMPOTENCY_MAPPING_TTL_SECONDS\n",
        REPLAYS,
    ),
    # The worker.
    Mutant(
        "a worker claims what it has lost",
        EXECUTION,
        "        return None if held.lost else intent\n",
        "        return intent\n",
        (*EXECUTED, *LEASES),
    ),
    # The scripts.
    Mutant(
        "a second settle takes again",
        script("settle"),
        "if receipt then\n",
        "if false then\n",
        SCRIPTS,
    ),
    Mutant(
        "a settle may take more than was held",
        script("settle"),
        "if tonumber(charge) > tonumber(held) then charge = held end\n",
        "",
        SCRIPTS,
    ),
    Mutant(
        "a settle leaves the hold behind",
        script("settle"),
        "redis.call('HDEL', KEYS[3], run)\n",
        "",
        SCRIPTS,
    ),
    Mutant(
        "a settle does not ask whose money it is",
        script("settle"),
        "  if owner and owner ~= tenant then return {'ERR_TENANT_MISMATCH'} end\n",
        "",
        SCRIPTS,
    ),
    Mutant(
        "a refund without a hold leaves no tombstone",
        script("refund_full"),
        "  held, outcome = '0', 'tombstone'\n",
        "  return {'OK', '0', balance, '0', 'tombstone'}\n",
        SCRIPTS,
    ),
    Mutant(
        "a late reserve passes the tombstone",
        script("reserve"),
        "if receipt then\n",
        "if false then\n",
        SCRIPTS,
    ),
    Mutant(
        "a reserve is let through a closed gate",
        script("reserve"),
        "if known[2] then return {'ERR_UNAVAILABLE', 'gate'} end\n",
        "",
        SCRIPTS,
    ),
    Mutant(
        "a hold takes one micro too many",
        script("reserve"),
        "if tonumber(balance) < tonumber(amount) then",
        "if tonumber(balance) + 1 < tonumber(amount) then",
        SCRIPTS,
    ),
    Mutant(
        "a credit of an older epoch is applied",
        script("credit"),
        "if known[1] ~= epoch then return {'ERR_UNAVAILABLE', 'epoch'} end\n",
        "",
        SCRIPTS,
    ),
    Mutant(
        "a credit is applied twice",
        script("credit"),
        "if receipt then\n",
        "if false then\n",
        SCRIPTS,
    ),
    Mutant(
        "a rebuild keeps old holds",
        script("rebuild"),
        "  redis.call('DEL', KEYS[2])\n",
        "",
        SCRIPTS,
    ),
)
