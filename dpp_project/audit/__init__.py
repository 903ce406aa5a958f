"""What people did: an append-only trail of who did what, from where, on what, with before and after."""
