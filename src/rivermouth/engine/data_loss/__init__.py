"""Data that is gone, and decisions about it."""
