"""Our own small pid 1 of a workspace: `pid1.py` alone is what runs inside."""
