"""In a process of its own: as many further tenants as asked for, each with a key, printed as JSON."""

import json
import sys

import django


def main() -> None:
    django.setup()
    from tenants import services as tenants
    from tenants.models import RATE_PER_MINUTE_MAX, Tenant
    from tenants.scopes import TENANT_SCOPES
    from tenants.services import IssuedKey

    found = []
    for number in range(int(sys.argv[1])):
        tenant = tenants.create_tenant(
            tenant_id=f"t_bench_{number}",
            display_name="Bench",
            poll_rate_per_minute=RATE_PER_MINUTE_MAX,
            submit_rate_per_minute=RATE_PER_MINUTE_MAX,
            actor="bench",
        )
        assert isinstance(tenant, Tenant)
        issued = tenants.issue_key(tenant_id=tenant.tenant_id, scopes=TENANT_SCOPES, actor="bench")
        assert isinstance(issued, IssuedKey)
        found.append({"tenant_id": tenant.tenant_id, "api_key": issued.plaintext})
    print(json.dumps(found))


if __name__ == "__main__":
    main()
