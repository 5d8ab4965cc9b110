"""The project file: YAML, values, messages."""
