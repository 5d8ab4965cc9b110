"""One file for each thing that can be done with a project."""
