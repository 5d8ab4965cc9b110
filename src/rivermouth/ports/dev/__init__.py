"""Servers for development and tests."""
