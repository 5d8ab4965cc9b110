"""Plain values: no Spark, no input or output."""
