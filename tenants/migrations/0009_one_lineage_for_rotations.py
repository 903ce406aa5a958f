"""A key's successor counts for its lineage, also where a process of the release before rotates it, which knows of none."""

from django.db import migrations

KEPT = """
CREATE FUNCTION api_keys_share_a_lineage() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE api_keys SET lineage_id = NEW.lineage_id
     WHERE key_id = NEW.replaced_by_id AND lineage_id <> NEW.lineage_id;
    RETURN NULL;
END
$$
"""
KEPT_TRIGGER = """
CREATE TRIGGER api_keys_share_a_lineage AFTER INSERT OR UPDATE OF replaced_by_id ON api_keys
    FOR EACH ROW WHEN (NEW.replaced_by_id IS NOT NULL) EXECUTE FUNCTION api_keys_share_a_lineage()
"""


class Migration(migrations.Migration):
    dependencies = [("tenants", "0008_scopes_of_workspaces")]

    operations = [
        migrations.RunSQL(KEPT, "DROP FUNCTION api_keys_share_a_lineage()"),
        migrations.RunSQL(KEPT_TRIGGER, "DROP TRIGGER api_keys_share_a_lineage ON api_keys"),
    ]
