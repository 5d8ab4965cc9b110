"""Schemas of a schema registry."""
