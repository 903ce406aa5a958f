from dpp_project.retention import DataKind

KINDS = (
    DataKind(
        name="audit_trail",
        tables=("audit_entries",),
        states="written; triggers refuse anything else",
        made_by="each act of a person, in the act's own transaction",
        read_by="operators in the console, tenants at `GET /v1/audit`",
        until="for good",
        why="Who did what is asked years later; a database's owner decides when a whole trail is archived.",
        deleted_by="no part of the platform",
    ),
)
