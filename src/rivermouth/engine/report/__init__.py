"""Reports about flows, made without writing."""
