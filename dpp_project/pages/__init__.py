"""The addresses that belong to no app: health, metrics, the OpenAPI document."""
