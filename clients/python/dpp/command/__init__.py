"""The command `dpp`: what a person, or a script, does with runs from a terminal."""
