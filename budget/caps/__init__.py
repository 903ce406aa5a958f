"""Caps on what a tenant, or one of its keys, may spend in a day, a week, a month and ever."""
