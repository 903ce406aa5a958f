"""Money in Redis: its keys, its scripts, its gate, and reading it."""
