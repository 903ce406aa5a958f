"""manage.py money_verify [--tenant t_acme] [--law-only] [--repair] [--json]"""

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from django.core.management.base import CommandParser

from budget import repairs
from budget.management.base import behind_is_refused
from budget.verification import ledger_audit, verify
from budget.verification.verify import Difference, Proof, Verdict
from dpp_project import actors
from dpp_project.management.base import CommandAnswer, CommandRefused, OpsCommand
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from tenants.models import Tenant

EXIT_DIFFERS = 1
EXIT_UNPROVED = 75  # EX_TEMPFAIL: closed or too busy; nothing is known to be wrong
SHOWN_MAX: Final = 10_000


@dataclass(slots=True)
class _Found:
    """What the command answers in the end, of however many tenants and entries."""

    verdicts: Counter[Verdict] = field(default_factory=Counter)
    tenants: int = 0
    rows_audited: int = 0
    drift_micros: int = 0
    unproved: list[str] = field(default_factory=list)
    wrong: list[tuple[str, Difference]] = field(default_factory=list)
    repaired: list[tuple[str, Difference]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def take(self, proof: Proof, audited: list[Difference]) -> None:
        """A tenant whose balance is proved and whose ledger is wrong differs: the balance was proved from it."""
        told = Verdict.DIFFERS if audited else proof.verdict
        self.tenants += 1
        self.verdicts[told] += 1
        self.drift_micros += proof.drift_micros or 0
        self.drift_micros += sum(abs(it.expected_micros - it.found_micros) for it in audited)
        if not proof.is_told:
            self.unproved.append(proof.tenant_id)
        self.wrong += [(proof.tenant_id, it) for it in (*proof.differences, *audited)][: SHOWN_MAX - len(self.wrong)]


class Command(OpsCommand):
    help = (
        "Prove per tenant that ledger = balance + holds + charges not yet committed + credits not yet applied, then"
        " that entries, snapshots and committed runs say the same. Exit code 1 and the rows where they do not; 75 where"
        " it could not be told now."
    )

    changes = True

    def declare(self, parser: CommandParser) -> None:
        parser.add_argument("--tenant", help="only this tenant")
        parser.add_argument(
            "--law-only", action="store_true", help="do not walk the ledger: seconds, however large it has grown"
        )
        parser.add_argument(
            "--repair",
            action="store_true",
            help="rebuild each tenant whose balance or holds differ from the ledger, and prove it again",
        )

    def run(self, *, dry_run: bool, **options: Any) -> CommandAnswer:
        tenant_id = options["tenant"]
        tenants = Tenant.objects.order_by("tenant_id").values_list("tenant_id", flat=True)
        if tenant_id is not None and not tenants.filter(tenant_id=tenant_id).exists():
            raise CommandRefused(Refusal(ReasonCode.NOT_FOUND, f"there is no tenant {tenant_id}", "--tenant"))
        found = _Found()
        for each in tenants.iterator() if tenant_id is None else [tenant_id]:
            proof = verify.verify_tenant_money(each)
            if proof.verdict is Verdict.DIFFERS and options["repair"] and not dry_run:
                with behind_is_refused():
                    made = repairs.rebuild_by_hand(each, actor=actors.COMMAND)
                if isinstance(made, Refusal):
                    found.refused.append(f"{each} is left as it is: its repair {made.detail}")
                else:
                    found.repaired += [(each, it) for it in proof.differences]
                    proof = verify.verify_tenant_money(each)
            found.take(proof, [] if options["law_only"] else _audited(each, found))
        return _money_verify_answer(found)


def _audited(tenant_id: str, found: _Found) -> list[Difference]:
    differences: list[Difference] = []
    for chunk in ledger_audit.audit_ledger(tenant_id):
        found.rows_audited += chunk.rows
        differences += chunk.differences
    return differences


def _money_verify_answer(found: _Found) -> CommandAnswer:
    counts = {verdict.value: found.verdicts[verdict] for verdict in Verdict}
    document = {
        "tenants": found.tenants,
        **counts,
        "unproved": found.unproved[:SHOWN_MAX],
        "drift_usd_micros": found.drift_micros,
        "rows_audited": found.rows_audited,
        "differences": [{"tenant_id": tenant_id, **asdict(it)} for tenant_id, it in found.wrong],
        "refused": found.refused,
        "repaired": [{"tenant_id": tenant_id, **asdict(it)} for tenant_id, it in found.repaired],
    }
    lines = [f"{found.tenants} tenants: " + ", ".join(f"{number} {verdict}" for verdict, number in counts.items())]
    lines += [f"not proved: {tenant_id}" for tenant_id in found.unproved[:SHOWN_MAX]]
    lines += [f"repaired: {_money_difference_line(*each)}" for each in found.repaired]
    lines += [_money_difference_line(*each) for each in found.wrong]
    if found.verdicts[Verdict.DIFFERS]:
        return CommandAnswer(document, lines, found.refused, exit_code=EXIT_DIFFERS)
    return CommandAnswer(document, lines, exit_code=EXIT_UNPROVED if found.unproved else 0)


def _money_difference_line(tenant_id: str, difference: Difference) -> str:
    whose = tenant_id if difference.run_id is None else f"{tenant_id} run {difference.run_id}"
    whose += "" if difference.where is None else f" {difference.where}"
    return f"{whose}: {difference.kind} expected {difference.expected_micros}, found {difference.found_micros}"
