"""Conversion between flows of a project file and files of a pipeline: pure functions from one to the other."""
