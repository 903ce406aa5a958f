"""The addresses under /v1/ that a tenant works with: validate, translate, answer."""
