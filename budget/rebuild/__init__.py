"""Redis rebuilt from Postgres."""
