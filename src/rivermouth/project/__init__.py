"""The door for files: ``rivermouth.yml`` and the environment become a ``Project``."""
