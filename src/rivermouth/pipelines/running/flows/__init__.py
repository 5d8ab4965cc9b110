"""The flows of a pipeline, made ready and run: streams, views, AUTO CDC, snapshots and sinks."""
