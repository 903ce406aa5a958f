"""`make prove`, `make mutants`, `make chaos`, `make contract`."""
