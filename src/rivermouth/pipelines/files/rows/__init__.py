"""How the text of files becomes rows: one module a format, and what is rescued."""
