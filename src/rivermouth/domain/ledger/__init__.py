"""The ledger: what a table's commits say, and what may be decided about it."""
