"""What a flow reads: topics, tables, snapshots."""
