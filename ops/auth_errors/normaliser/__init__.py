"""Which traces are the same fault: one hash for each version of the rules. Pure."""
