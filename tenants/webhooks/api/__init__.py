"""/v1/webhooks: what a tenant's key with `webhooks:write` may do with its webhooks. Reading is behind the same scope:
a URL may hold a token, and a key that reads runs need not see it.
"""
