"""Connections to Redis and Postgres, and retries while a store is away."""
