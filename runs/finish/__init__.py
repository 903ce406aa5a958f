"""From a claim to the end of a run: money moved as the intent says, then committed."""
