"""Run ids: in order of time (dpp_project/uuid7.py). They tell when a run was made, which its owner knows anyway."""

from dpp_project.uuid7 import first_at as first_run_id_at
from dpp_project.uuid7 import new_uuid7 as new_run_id

__all__ = ["first_run_id_at", "new_run_id"]
