"""Kafka clusters."""
