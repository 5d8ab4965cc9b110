"""A flow at work, and the plain values about it."""
