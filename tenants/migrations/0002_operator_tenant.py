"""The reserved tenant `t_operator`, and a trigger that keeps it: it is neither deleted nor renamed.

That it stays ACTIVE and that its keys carry operator scopes only are CHECK constraints of 0001. One command per entry:
the connection prepares its statements, and a prepared statement holds one command.
"""

from django.db import migrations

THE_OPERATOR = "INSERT INTO tenants (tenant_id, display_name) VALUES ('t_operator', 'Operator') ON CONFLICT DO NOTHING"

REFUSAL = """
CREATE FUNCTION tenants_operator_is_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.tenant_id = OLD.tenant_id THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'tenant t_operator is reserved and is neither deleted nor renamed'
        USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'tenants_operator_is_kept';
END
$$
"""

TRIGGER = """
CREATE TRIGGER tenants_operator_is_kept BEFORE DELETE OR UPDATE OF tenant_id ON tenants
    FOR EACH ROW WHEN (OLD.tenant_id = 't_operator') EXECUTE FUNCTION tenants_operator_is_kept()
"""


class Migration(migrations.Migration):
    dependencies = [("tenants", "0001_initial")]

    operations = [
        migrations.RunSQL(THE_OPERATOR, migrations.RunSQL.noop),
        migrations.RunSQL(REFUSAL, "DROP FUNCTION tenants_operator_is_kept()"),
        migrations.RunSQL(TRIGGER, "DROP TRIGGER tenants_operator_is_kept ON tenants"),
    ]
