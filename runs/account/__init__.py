"""Runs on a tenant's own pages: a list, and each with its life, its money and its result."""
