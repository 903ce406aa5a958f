"""Death, delay, rivals and broken wires at a chosen place."""
