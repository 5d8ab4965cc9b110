"""Spark's session, jars and internals."""
