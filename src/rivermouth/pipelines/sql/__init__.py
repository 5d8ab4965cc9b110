"""The SQL of pipelines: what files define, what queries read, and queries as Spark understands them. No Spark here."""
