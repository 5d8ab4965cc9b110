"""Dead letters of pipelines that are Kafka records, tried again by their queries."""
