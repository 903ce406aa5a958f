"""Workspaces as processes of this machine, each in a bubblewrap of its own: no daemon, no image."""
