"""The names and places of a project."""
