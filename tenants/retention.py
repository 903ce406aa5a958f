from dpp_project.retention import DataKind

KINDS = (
    DataKind(
        name="tenants",
        tables=("tenants", "api_keys", "spend_caps"),
        states="tenant: active or not, submits stopped or not; key: live, shortened by a rotation, revoked",
        made_by="operators; keys also by their tenant",
        read_by="every request",
        until="for good",
        why="The ledger names tenants, and its charges the lines of their keys.",
        deleted_by="no part of the platform",
    ),
    DataKind(
        name="rate_limits",
        redis=("rate:*",),
        states="a bucket's level and time",
        made_by="a tenant's request",
        read_by="the next one",
        until="until the bucket is full again: its key's own time to live",
        why="How many requests of a minute are left.",
        deleted_by="Redis itself",
    ),
)
