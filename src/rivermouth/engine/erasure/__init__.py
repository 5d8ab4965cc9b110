"""Rows erased by a condition."""
