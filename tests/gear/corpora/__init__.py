"""Inputs with known answers."""
