"""One run at its worker: lease, execution, stored result."""
