"""The schema of a flow, kept and grown."""
