"""What operators do with runs: explain, end, send again, dispute."""
