"""Money on a tenant's own pages: balance, statement, usage, keys and caps. What is counted and changed stands below."""
