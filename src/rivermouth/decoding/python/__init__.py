"""Values that a Python function decodes."""
