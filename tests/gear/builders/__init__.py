"""Tenants, runs, tickets and packs for tests."""
