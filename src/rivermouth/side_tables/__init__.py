"""The tables that a flow writes besides its own: dead letters, deleted keys, erased records."""
