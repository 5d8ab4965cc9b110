"""How the value of a record becomes columns: one file a format."""
