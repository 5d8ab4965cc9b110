"""A project with its environment: flows and places."""
