"""Classes that Spark's settings name and that are not public."""

from __future__ import annotations

from typing import Final

CHECKPOINT_FILES: Final = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""For ``spark.sql.streaming.checkpointFileManagerClass``: files by Hadoop's FileSystem."""
CONDITIONAL_CHECKPOINT_FILES: Final = "rivermouth.internals.checkpoints.ConditionalCheckpointFiles"
"""For the same: ours, for object stores."""
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""The class that keeps the state of streaming queries in RocksDB."""
EMPTY_RELATIONS: Final = "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"
"""For ``spark.sql.adaptive.optimizer.excludedRules``: leaves out what is above a stage without rows."""
DELTA_CATALOG: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
"""For ``spark.sql.catalog.spark_catalog``, as Delta's documentation says."""
LAKE_CATALOG: Final = "rivermouth.internals.catalog.LakeCatalog"
"""For the same: ours, which finds and makes the tables of a lake by their names."""
LAKE_OF_CATALOG: Final = "spark.rivermouth.lake"
"""The folder of that lake."""
SCHEMA_OF_CATALOG: Final = "spark.rivermouth.schema"
"""The schema of names without one."""
PATH_OF_TABLE: Final = "spark.rivermouth.path"
"""The start of the settings for the folders of tables that are not in it, with the name ``schema.table`` after it."""
