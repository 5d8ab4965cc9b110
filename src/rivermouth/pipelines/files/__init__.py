"""Files as sources of pipelines: ``cloudFiles``, ``read_files`` and ``cloud_files`` on Spark's own file source."""
