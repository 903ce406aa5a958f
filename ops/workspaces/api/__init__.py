"""/v1/workspaces: a tenant's keys use its own, an operator's key reads those of all tenants.

Values of an environment may be secrets: they are shown to keys that may write them, and to nobody else.
"""
