"""Code that more than one pack uses."""
