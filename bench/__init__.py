"""Measures rivermouth beside what people write themselves: ``python -m bench``."""
