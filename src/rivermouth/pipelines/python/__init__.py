"""Python files of a pipeline: the modules ``dlt`` and ``pyspark.pipelines`` that they import, and their evaluation."""
