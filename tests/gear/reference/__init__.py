"""Reference models, and worlds that run beside the real code."""
