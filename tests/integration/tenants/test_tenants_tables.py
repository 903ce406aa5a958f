"""What Postgres itself refuses of tenants and keys, whoever writes (DPP-11), and the documented DDL."""

from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import ProtectedError

from tenants.models import ApiKey, Tenant
from tenants.scopes import OPERATOR_TENANT_ID
from tests.gear.builders.tenants import a_key, a_tenant, an_operator_key

pytestmark = [pytest.mark.django_db, pytest.mark.contract("DPP-11")]


def refused_by(constraint: str) -> Any:
    return pytest.raises(IntegrityError, match=constraint)


def insert_key(**values: Any) -> ApiKey:
    row: dict[str, Any] = {
        "tenant_id": OPERATOR_TENANT_ID,
        "key_hash": "a" * 64,
        "prefix": "abcdefgh",
        "scopes": ["operator:read"],
    }
    with transaction.atomic():
        return ApiKey.objects.create(**(row | values))


@pytest.fixture(autouse=True)
def _operator() -> None:
    an_operator_key()


@pytest.mark.parametrize("status", ["SUSPENDED", "DELETED", ""])
def test_tenants_operator_stays_active(status: str) -> None:
    with refused_by("tenants_(operator_stays_active|status_known)"), transaction.atomic():
        Tenant.objects.filter(tenant_id=OPERATOR_TENANT_ID).update(status=status)
    assert Tenant.objects.get(tenant_id=OPERATOR_TENANT_ID).status == "ACTIVE"


@pytest.mark.parametrize(
    "sql", ["DELETE FROM tenants WHERE tenant_id = 't_operator'", "UPDATE tenants SET tenant_id = 't_gone'"]
)
def test_tenants_operator_is_neither_deleted_nor_renamed(sql: str) -> None:
    with refused_by("tenants_operator_is_kept|reserved"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql)
    assert Tenant.objects.filter(tenant_id=OPERATOR_TENANT_ID).exists()


def test_tenants_operator_may_be_named_anew() -> None:
    assert Tenant.objects.filter(tenant_id=OPERATOR_TENANT_ID).update(display_name="Operations") == 1


@pytest.mark.parametrize("scopes", [["runs:read"], ["operator:read", "runs:read"]])
def test_tenants_operator_keys_carry_operator_scopes_only(scopes: list[str]) -> None:
    with refused_by("api_keys_scopes_fit_tenant"):
        insert_key(scopes=scopes)


@pytest.mark.parametrize(
    "scopes", [["operator:read"], ["operator:write", "runs:read"], ["runs:fly"], ["runs:read", None]]
)
def test_tenants_keys_carry_tenant_scopes_only(scopes: list[str]) -> None:
    with refused_by("api_keys_scopes_fit_tenant"):
        insert_key(tenant_id=a_tenant().tenant_id, scopes=scopes)


def test_tenants_a_key_cannot_be_handed_to_the_operator_or_away_from_it() -> None:
    tenant_key, operator_key = a_key(), an_operator_key()
    for key, tenant_id in ((tenant_key, OPERATOR_TENANT_ID), (operator_key, tenant_key.key.tenant_id)):
        with refused_by("api_keys_scopes_fit_tenant"), transaction.atomic():
            ApiKey.objects.filter(pk=key.key.pk).update(tenant_id=tenant_id)


@pytest.mark.parametrize(
    ("values", "constraint"),
    [
        ({"scopes": []}, "api_keys_scopes_given"),
        ({"prefix": "short"}, "api_keys_prefix_form"),
        ({"prefix": "with_und"}, "api_keys_prefix_form"),
        ({"key_hash": "dpp_abcdefgh_" + "x" * 43}, "api_keys_key_hash_form"),
        ({"key_hash": "A" * 64}, "api_keys_key_hash_form"),
        ({"status": "REVOKED"}, "api_keys_status_agrees_with_revoked_at"),
        ({"status": "SLEEPING"}, "api_keys_status_agrees_with_revoked_at"),
    ],
)
def test_tenants_malformed_key_rows_are_refused(values: dict[str, Any], constraint: str) -> None:
    before = ApiKey.objects.count()
    with refused_by(constraint):
        insert_key(**values)
    assert ApiKey.objects.count() == before


def test_tenants_a_prefix_names_one_key() -> None:
    insert_key()
    with refused_by("api_keys_prefix_unique"):
        insert_key(key_hash="b" * 64)


@pytest.mark.parametrize(
    "tenant_id",
    ["acme", "t_", "t_Acme", "t_a-b", "t_" + "a" * 61, "t_a ", "t_a\n", "T_a", "t_\N{LATIN SMALL LETTER E WITH ACUTE}"],
)
def test_tenants_malformed_ids_are_refused(tenant_id: str) -> None:
    with refused_by("tenants_tenant_id_form"), transaction.atomic():
        Tenant.objects.create(tenant_id=tenant_id, display_name="x")


@pytest.mark.parametrize("rate", [0, -1, 1_000_001])
@pytest.mark.parametrize("column", ["poll", "submit"])
def test_tenants_rates_out_of_range_are_refused(column: str, rate: int) -> None:
    tenant = a_tenant()
    with refused_by(f"tenants_{column}_rate_range"), transaction.atomic():
        Tenant.objects.filter(pk=tenant.pk).update(**{f"{column}_rate_per_minute": rate})


def test_tenants_with_keys_are_never_deleted() -> None:
    issued = a_key()
    with pytest.raises(ProtectedError):
        Tenant.objects.get(pk=issued.key.tenant_id).delete()


def test_tenants_tables_have_the_documented_columns_and_defaults() -> None:
    documented = {
        ("tenants", "tenant_id", "text", "NO", None),
        ("tenants", "display_name", "text", "NO", None),
        ("tenants", "status", "text", "NO", "'ACTIVE'::text"),
        ("tenants", "created_at", "timestamp with time zone", "NO", "CURRENT_TIMESTAMP"),
        ("api_keys", "key_id", "uuid", "NO", None),
        ("api_keys", "tenant_id", "text", "NO", None),
        ("api_keys", "key_hash", "text", "NO", None),
        ("api_keys", "label", "text", "YES", None),
        ("api_keys", "status", "text", "NO", "'ACTIVE'::text"),
        ("api_keys", "created_at", "timestamp with time zone", "NO", "CURRENT_TIMESTAMP"),
        ("api_keys", "last_used_at", "timestamp with time zone", "YES", None),
    }
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name, column_name, data_type, is_nullable, column_default"
            "  FROM information_schema.columns WHERE table_name IN ('tenants', 'api_keys')"
        )
        assert documented <= set(cursor.fetchall())
        cursor.execute("SELECT indexdef FROM pg_indexes WHERE indexname = 'idx_api_keys_tenant'")
        assert str(cursor.fetchone()[0]).endswith("ON public.api_keys USING btree (tenant_id)")


def test_tenants_key_ids_are_random_and_tell_neither_time_nor_machine() -> None:
    """A key's id is shown to people: it must not tell which other ids there are (version 1 and 7 would)."""
    made = [insert_key(key_hash=f"{number:064x}", prefix=f"abcdefg{number}").key_id for number in range(8)]
    assert [key_id.version for key_id in made] == [4] * 8
    assert len({key_id.bytes[:4] for key_id in made} | {key_id.bytes[-6:] for key_id in made}) == 16


@pytest.mark.contract("CAP-06")
def test_a_key_that_an_older_release_rotates_counts_for_its_lineage() -> None:
    """Such a process names no lineage: its rotation would be a way out of the caps of the key before."""
    old, other = insert_key(key_hash="a" * 64, prefix="abcdefg1"), insert_key(key_hash="b" * 64, prefix="abcdefg2")
    its_own = other.lineage_id
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO api_keys (key_id, tenant_id, key_hash, prefix, scopes)"
            " SELECT gen_random_uuid(), tenant_id, %s, %s, scopes FROM api_keys WHERE key_id = %s RETURNING key_id",
            ["c" * 64, "abcdefg3", old.key_id],
        )
        (made,) = cursor.fetchone()
        cursor.execute("UPDATE api_keys SET replaced_by_id = %s WHERE key_id = %s", [made, old.key_id])
    assert ApiKey.objects.get(key_id=made).lineage_id == old.lineage_id
    other.refresh_from_db()
    assert other.lineage_id == its_own
