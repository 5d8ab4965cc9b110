"""The ledger of streaming queries: what a commit says of the batch that it brings."""
