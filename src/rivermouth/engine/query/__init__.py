"""Queries of pipelines: the second way by which rows reach a table, with a ledger of its own kind."""
