"""How a message goes out: fanned out, claimed, sent, and marked with what came of it."""
