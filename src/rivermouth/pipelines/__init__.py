"""Declarative pipelines: Python and SQL files with datasets, run on this engine."""

from rivermouth.pipelines.python.decode import decode, encode

__all__ = ["decode", "encode"]
