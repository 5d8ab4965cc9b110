"""Dead letters: looked at, and tried again."""
