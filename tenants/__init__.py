"""Who: tenants, their keys, what a key may do, and how often."""
