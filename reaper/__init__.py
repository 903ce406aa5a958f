"""What happens after a crash: one file for each loop of recovery, each pass to be read from top to bottom."""
