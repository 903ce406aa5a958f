"""Measurements. Each module prints its figures when run."""
