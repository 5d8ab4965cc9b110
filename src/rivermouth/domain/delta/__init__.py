"""Delta tables as plain values: files, merges, maintenance."""
