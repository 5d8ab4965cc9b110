"""Formats whose columns are declared."""
