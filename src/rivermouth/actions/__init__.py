"""What happens to a record that fails an expectation: one file an action."""
