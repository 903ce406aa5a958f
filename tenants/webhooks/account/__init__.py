"""Webhooks on a tenant's own pages: each with its deliveries, paused, resumed, tested, rotated, deleted."""
