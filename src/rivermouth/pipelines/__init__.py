"""Declarative pipelines: Python and SQL files with datasets, run on this engine."""

from rivermouth.pipelines.python.decode import decode

__all__ = ["decode"]
