"""What more than one pack uses."""
