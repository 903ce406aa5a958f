"""Periodic work: what a job is, how it is run once at a time, and the report it leaves."""
