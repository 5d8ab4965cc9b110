"""Declarative pipelines: the Python and SQL files that define them, and how they are run."""
