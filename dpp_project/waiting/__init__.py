"""Waiting for rows of the database to move, for many at once, without a thread or a connection for each."""
