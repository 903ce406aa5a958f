"""A tenant's own pages at /account/: signed in with one of its API keys, through the services that the API calls.

`page.py` is what every page stands on. The pages themselves stand in the app whose things they show: here, and in
`account/` of webhooks, budget, runs and workspaces.
"""
