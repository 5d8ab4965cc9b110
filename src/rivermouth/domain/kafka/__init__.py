"""Kafka as plain values: options, topics, offsets."""
