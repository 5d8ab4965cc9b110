"""Schemas inferred from documents, and how they grow."""
