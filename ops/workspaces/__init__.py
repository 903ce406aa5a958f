"""Workspaces: a tenant's home folder and the container that works in it, kept by two loops that look at what is."""
