"""Workspaces over HTTP: what listens on a port of a workspace is reached at `/w/{workspace_id}/{port}/…`.

Served by the process that holds the workspace, on a port of its own. What a workspace answers is a tenant's: it must
never meet a session of the console, a key, or another tenant's pages. So each workspace has an origin of its own, the
caller's key and cookies end here, and all that it answers goes back without cookies.
"""
