"""The rows of workspaces: each column has one writer. The API's own are written by services.py."""
