"""Child processes: found, ended, and not left behind."""
