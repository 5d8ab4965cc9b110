"""The methods of ``Project``."""
