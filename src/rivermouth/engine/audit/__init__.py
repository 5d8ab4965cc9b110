"""Every record in exactly one place."""
