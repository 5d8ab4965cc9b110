"""The graph of a pipeline: its queries are evaluated, and each table is made ready for them."""
