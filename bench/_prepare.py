"""In a process of its own: the database as the code wants it, a tenant with money, and its key, printed as JSON."""

import json

import django

TENANT_ID = "t_bench"


def main() -> None:
    django.setup()
    from django.core.management import call_command

    from budget import entries
    from budget.money import MAX_MICROS
    from budget.rebuild import rebuild
    from tenants import services as tenants
    from tenants.models import RATE_PER_MINUTE_MAX, Tenant
    from tenants.scopes import TENANT_SCOPES
    from tenants.services import IssuedKey

    call_command("migrate", verbosity=0)
    rebuild.rebuild_all()
    tenant = tenants.create_tenant(
        tenant_id=TENANT_ID,
        display_name="Bench",
        poll_rate_per_minute=RATE_PER_MINUTE_MAX,
        submit_rate_per_minute=RATE_PER_MINUTE_MAX,
        actor="bench",
    )
    assert isinstance(tenant, Tenant)
    entries.top_up(
        tenant_id=TENANT_ID, amount_micros=MAX_MICROS, reference="bench", reason="", actor="bench", approved_by="bench"
    )
    issued = tenants.issue_key(tenant_id=TENANT_ID, scopes=TENANT_SCOPES, actor="bench")
    assert isinstance(issued, IssuedKey)
    print(json.dumps({"tenant_id": TENANT_ID, "api_key": issued.plaintext}))


if __name__ == "__main__":
    main()
