"""What is read of runs, by reader: a tenant, a worker, the recovery loops, the budget's rebuild."""
