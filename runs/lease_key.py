"""Names a run's lease in Redis: its worker writes the key and watches it, a cancel deletes it (DPP-27, DPP-31)."""

from uuid import UUID


def lease_key(run_id: UUID) -> str:
    return f"lease:{run_id}"
