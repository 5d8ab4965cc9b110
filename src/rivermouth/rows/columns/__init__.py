"""Columns that the way of a record adds."""
