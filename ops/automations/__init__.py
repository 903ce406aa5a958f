"""Automations: something happens, a rule buys a run for it, and the result becomes a message."""
