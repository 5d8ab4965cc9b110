"""Steps of a query's batch that go with more than one way to write it."""
