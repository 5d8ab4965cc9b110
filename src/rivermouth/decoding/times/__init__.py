"""How dates and times are read from text and numbers."""
