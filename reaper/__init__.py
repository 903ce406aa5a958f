"""What happens after a crash: one file for each loop of recovery, each `run_once` to be read from top to bottom."""
