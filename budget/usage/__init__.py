"""What a tenant's runs of some dates came to, by day or month, and by pack, key or reason."""
