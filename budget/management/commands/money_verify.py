"""manage.py money_verify [--tenant t_acme] [--repair] [--json]"""

from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser

from budget import repairs, verify
from budget.verify import Difference, Proof, Verdict
from dpp_project import actors
from dpp_project.management.base import CommandAnswer, CommandRefused, OpsCommand
from dpp_project.reasons import ReasonCode
from dpp_project.refusals import Refusal
from tenants.models import Tenant

EXIT_DIFFERS = 1
EXIT_UNPROVED = 75  # EX_TEMPFAIL: closed or too busy; nothing is known to be wrong


class Command(OpsCommand):
    help = (
        "Prove per tenant that ledger = balance + holds + charges not yet committed + credits not yet applied."
        " Exit code 1 and the rows where it does not; 75 where it could not be told now."
    )

    changes = True

    def declare(self, parser: CommandParser) -> None:
        parser.add_argument("--tenant", help="only this tenant")
        parser.add_argument(
            "--repair", action="store_true", help="rebuild each tenant that differs, and prove it again"
        )

    def run(self, *, dry_run: bool, **options: Any) -> CommandAnswer:
        tenant_id = options["tenant"]
        tenants = Tenant.objects.order_by("tenant_id").values_list("tenant_id", flat=True)
        if tenant_id is not None and not tenants.filter(tenant_id=tenant_id).exists():
            raise CommandRefused(Refusal(ReasonCode.NOT_FOUND, f"there is no tenant {tenant_id}", "--tenant"))
        chosen = list(tenants) if tenant_id is None else [tenant_id]
        proofs, repaired, refused = [], [], []
        for each in chosen:
            proof = verify.verify(each)
            if proof.verdict is Verdict.DIFFERS and options["repair"] and not dry_run:
                made = repairs.rebuild_by_hand(each, actor=actors.COMMAND)
                if isinstance(made, Refusal):
                    refused.append(f"{each} is left as it is: its repair {made.detail}")
                else:
                    repaired.append(proof)
                    proof = verify.verify(each)
            proofs.append(proof)
        return _answer(proofs, repaired, refused)


def _answer(proofs: list[Proof], repaired: list[Proof], refused: list[str]) -> CommandAnswer:
    count = {verdict: sum(proof.verdict is verdict for proof in proofs) for verdict in Verdict}
    wrong = [proof for proof in proofs if proof.verdict is Verdict.DIFFERS]
    document = {
        "tenants": len(proofs),
        **{verdict.value: number for verdict, number in count.items()},
        "drift_usd_micros": sum(proof.drift_micros for proof in wrong),
        "differences": [_row(proof, it) for proof in wrong for it in proof.differences],
        "refused": refused,
        "repaired": [_row(proof, it) for proof in repaired for it in proof.differences],
    }
    lines = [f"{len(proofs)} tenants: " + ", ".join(f"{number} {verdict}" for verdict, number in count.items())]
    lines += [f"repaired: {_line(proof, it)}" for proof in repaired for it in proof.differences]
    lines += [_line(proof, it) for proof in wrong for it in proof.differences]
    if wrong:
        return CommandAnswer(document, lines, refused, exit_code=EXIT_DIFFERS)
    return CommandAnswer(document, lines, exit_code=0 if count[Verdict.PROVED] == len(proofs) else EXIT_UNPROVED)


def _row(proof: Proof, difference: Difference) -> dict[str, Any]:
    return {"tenant_id": proof.tenant_id, **asdict(difference)}


def _line(proof: Proof, difference: Difference) -> str:
    whose = proof.tenant_id if difference.run_id is None else f"{proof.tenant_id} run {difference.run_id}"
    return f"{whose}: {difference.kind} expected {difference.expected_micros}, found {difference.found_micros}"
