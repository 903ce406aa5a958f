"""manage.py list_tenants --keys"""

from typing import Any

from django.core.management.base import CommandParser
from django.db.models import Prefetch

from dpp_project.management.base import CommandAnswer, OpsCommand, within_limit
from tenants.management.base import key_document, tenant_document
from tenants.models import ApiKey, Tenant


class Command(OpsCommand):
    help = "List the tenants, with --keys their API keys as well. No key is shown, only its prefix."

    def declare(self, parser: CommandParser) -> None:
        parser.add_argument("--keys", action="store_true", help="with their keys")
        parser.add_argument("--limit", type=int, default=1_000, help="at most so many tenants (default %(default)s)")

    def run(self, *, dry_run: bool, **options: Any) -> CommandAnswer:
        del dry_run
        tenants = Tenant.objects.order_by("tenant_id")
        if options["keys"]:
            tenants = tenants.prefetch_related(Prefetch("api_keys", ApiKey.objects.order_by("created_at", "prefix")))
        documents, lines = [], []
        for tenant in tenants[: within_limit(options["limit"])]:
            rates = f"poll {tenant.poll_rate_per_minute}/min, submit {tenant.submit_rate_per_minute}/min"
            lines.append(f"{tenant.tenant_id}  {tenant.status}  {rates}  {tenant.display_name}")
            document = tenant_document(tenant)
            if options["keys"]:
                held = [key_document(key) for key in tenant.api_keys.all()]
                document["keys"] = held
                lines.extend(
                    f"    {key['prefix']}  {key['status']}  expires {key['expires_at'] or 'never'}"
                    f"  used {key['last_used_at'] or 'never'}  {','.join(key['scopes'])}  {key['label'] or ''}".rstrip()
                    for key in held
                )
            documents.append(document)
        return CommandAnswer({"tenants": documents}, lines or ["There are no tenants."])
