"""What `check --deploy` must find beside the constraints: the triggers that tenants and keys rest on."""

from typing import Final

from dpp_project.checks import require_trigger

TRIGGERS: Final = (
    ("tenants", "tenants_operator_is_kept"),
    ("api_keys", "api_keys_share_a_lineage"),
)

for _table, _name in TRIGGERS:
    require_trigger(table=_table, name=_name)
