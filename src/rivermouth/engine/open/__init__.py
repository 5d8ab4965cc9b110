"""A flow opened."""
