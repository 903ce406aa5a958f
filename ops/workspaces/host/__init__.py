"""What the process `workspaces` does at a host, over its driver: looks, acts, recovers, sweeps, measures."""
