"""What is said of flows without writing."""
