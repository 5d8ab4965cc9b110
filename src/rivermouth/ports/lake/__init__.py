"""Small files of the lake."""
