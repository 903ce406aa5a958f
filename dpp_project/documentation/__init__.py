"""The pages of docs/ as a part of the product, at /docs/: read once a process, rendered when first asked for."""
