"""What becomes of an event: a task, its attempts, the run that each buys, and its end."""
