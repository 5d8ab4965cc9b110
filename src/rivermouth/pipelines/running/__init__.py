"""A pipeline at work: its queries looked at, planned, and refreshed."""
