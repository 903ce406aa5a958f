"""What the product is measured against: the same effects with raw drivers, with a bare Django view, with FastAPI."""
