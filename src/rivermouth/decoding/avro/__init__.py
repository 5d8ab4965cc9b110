"""Avro records."""
