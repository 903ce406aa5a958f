"""What each operation does, step by step. A step says what comes after it; `running.py` goes from one to the next.

Each effect is asked of the driver or the bucket after a compare-and-set that this attempt still has the operation, and
is of a kind that may come twice or late: destructive ones take an id that was looked up before that compare-and-set, or
the name of a volume whose row is dead.
"""
