"""The Spark session that pipeline files see: a session of its own that also knows the names of the pipeline."""
