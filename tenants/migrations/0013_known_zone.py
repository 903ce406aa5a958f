"""Which zone dates are counted in: the tenant's own, or UTC where this Postgres knows no zone of that name.

A name is checked when it is set. A Postgres that was upgraded or moved may know fewer of them, and a statement that
dates many tenants would then fail for all.
"""

from django.db import migrations

# The first line spares almost every tenant the second block, whose EXCEPTION clause costs a subtransaction.
KNOWN_ZONE = """
CREATE FUNCTION known_zone(zone text) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF zone = 'UTC' THEN RETURN zone; END IF;
    BEGIN
        PERFORM now() AT TIME ZONE zone;
        RETURN zone;
    EXCEPTION WHEN invalid_parameter_value THEN
        RETURN 'UTC';
    END;
END
$$
"""


class Migration(migrations.Migration):
    dependencies = [("tenants", "0012_most_at_work")]

    operations = [migrations.RunSQL(KNOWN_ZONE, "DROP FUNCTION known_zone(text)")]
