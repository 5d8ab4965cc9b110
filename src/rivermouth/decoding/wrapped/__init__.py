"""Values that are compressed, framed, or texts within a document."""
