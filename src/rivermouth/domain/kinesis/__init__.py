"""Kinesis as plain values: what a query asks of it, and how far it has read."""
