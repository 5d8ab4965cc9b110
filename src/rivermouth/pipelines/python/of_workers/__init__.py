"""Modules for Spark's workers, in which nothing is defined."""
