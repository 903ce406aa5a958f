"""Workspaces on a tenant's own pages: which there are, and how each stands."""
