"""Measures rivermouth, and the scripts that people write themselves, for comparison: ``python -m bench``."""
