"""Run ids: in order of time (dpp_project/uuid7.py). They tell when a run was made, which its owner knows anyway."""

from dpp_project.uuid7 import first_at, new

__all__ = ["first_at", "new"]
