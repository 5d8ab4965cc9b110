"""The outside world, one file each: Spark, Kafka, Delta, Java, files."""
