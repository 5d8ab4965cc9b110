"""Flows side by side."""
