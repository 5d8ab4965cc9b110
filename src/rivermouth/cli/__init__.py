"""The doors for the shell: one file a group of commands; each says what it has to say as text and as JSON."""
