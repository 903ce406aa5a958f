"""The end of a run that its owner, or an operator, asks for."""
