"""Redis and Postgres: connections, Lua scripts, advisory locks, and retries while a store is away."""
