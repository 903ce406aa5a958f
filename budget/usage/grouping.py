"""By metadata takes the key, and the key takes it: in one place for the API and the command."""

from budget.usage.reading import UsageGroup
from dpp_project.refusals import Refusal, invalid


def key_fits(group: UsageGroup | None, metadata_key: str | None) -> Refusal | None:
    if group is UsageGroup.METADATA and metadata_key is None:
        return invalid("metadata_key", "say which key of the runs' metadata")
    if group is not UsageGroup.METADATA and metadata_key is not None:
        return invalid("metadata_key", "it goes with group_by=metadata, or with FOCUS")
    return None
