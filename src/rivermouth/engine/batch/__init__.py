"""One batch, and what a crash leaves of it."""
