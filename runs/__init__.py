"""The run: what it is, what may happen to it, who makes it happen."""
