"""Waiting for runs: until they have ended, or step by step."""
