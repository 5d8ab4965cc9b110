"""Change envelopes: Debezium, MongoDB, MySQL and Kafka Connect."""
