"""Workspaces as containers of a Docker daemon on this host."""
