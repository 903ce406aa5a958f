"""A report before anything of it is stored or logged: cleaned, masked, read for its frames, then cut. Pure."""
