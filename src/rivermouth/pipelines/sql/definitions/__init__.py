"""What the statements of a SQL file define."""
