"""What is done to workspaces by time and by the books: rests, collections, leftovers, scrubs, purges. Each a pass of a
job (jobs.py), but for what is left over at a driver, which the loops of its own host look for.
"""
