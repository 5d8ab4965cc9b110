"""Where rows go: one file a sink, each with its guarantees."""
