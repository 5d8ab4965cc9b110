"""Kinesis: its client, what a batch reads, and the data source of Spark."""
