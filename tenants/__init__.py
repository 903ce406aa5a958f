"""Tenants, their API keys, scopes and rate limits."""
