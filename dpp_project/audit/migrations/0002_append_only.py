"""What constraints cannot refuse: changing the trail, taking from it, or emptying it."""

from django.db import migrations

REFUSE_CHANGE = """
CREATE FUNCTION audit_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$
"""
APPEND_ONLY = """
CREATE TRIGGER audit_entries_append_only BEFORE UPDATE OR DELETE ON audit_entries
    FOR EACH ROW EXECUTE FUNCTION audit_refuse_change()
"""
NEVER_EMPTIED = """
CREATE TRIGGER audit_entries_never_emptied BEFORE TRUNCATE ON audit_entries
    FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse_change()
"""


class Migration(migrations.Migration):
    dependencies = [("audit", "0001_audit_entries")]

    operations = [
        migrations.RunSQL([REFUSE_CHANGE], ["DROP FUNCTION audit_refuse_change"]),
        migrations.RunSQL([APPEND_ONLY], ["DROP TRIGGER audit_entries_append_only ON audit_entries"]),
        migrations.RunSQL([NEVER_EMPTIED], ["DROP TRIGGER audit_entries_never_emptied ON audit_entries"]),
    ]
