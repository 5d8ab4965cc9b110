"""A flow's table."""
