"""The tables of pipelines looked at, read, and looked after."""
