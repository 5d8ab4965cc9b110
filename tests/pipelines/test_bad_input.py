"""What is wrong with a pipeline is said with the user's own file and line, and nothing is run."""

import pytest

from rivermouth.errors import RivermouthError

HEAD = "from pyspark import pipelines as dp\n"
NOTEBOOK = "\n# COMMAND ----------\n"
CDC = (
    "@dp.temporary_view\ndef changes():\n"
    "    return spark.readStream.format('rate').load().selectExpr('value id', 'value other', 'timestamp ts')\n"
    "dp.create_streaming_table('t')\ndp.create_auto_cdc_flow('t', 'changes', ['id'], 'ts')\n"
)


def _into_kafka(options, select):
    """A flow from the rows of a clock into a Kafka sink."""
    return (
        f"dp.create_sink('k', 'kafka', {{'kafka.bootstrap.servers': 'localhost:1', {options}}})\n"
        "@dp.append_flow(target='k')\ndef f():\n"
        f"    return spark.readStream.format('rate').load().selectExpr({select})\n"
    )


CASES = {
    "a circle": (
        (
            "@dp.table\ndef a():\n    return spark.readStream.table('b')\n"
            "@dp.table\ndef b():\n    return spark.readStream.table('c')\n"
            "@dp.table\ndef c():\n    return spark.readStream.table('a')\n"
        ),
        (
            "[PIPELINE_CIRCLE] datasets read each other in a circle: a -> b -> c -> a; the pipeline was not run\n"
            "  at: src/a.py:2\n"
            "  hint: remove one of these reads"
        ),
    ),
    "an unknown name": (
        (
            "@dp.table\ndef orders():\n    return spark.readStream.format('rate').load()\n"
            "@dp.table\ndef paid():\n    return spark.readStream.table('orderz')\n"
        ),
        (
            "[DATASET_UNKNOWN] paid reads orderz, which is neither in the pipeline, nor a table of the lake or the "
            "catalog; nothing was run\n"
            "  at: src/a.py:7\n"
            "  hint: did you mean 'orders'?"
        ),
    ),
    "two of one name": (
        (
            "@dp.table\ndef a():\n    return spark.readStream.format('rate').load()\n"
            "@dp.materialized_view(name='default.A')\ndef other():\n    return spark.range(1)\n"
        ),
        (
            "[DATASET_DEFINED_TWICE] a is defined twice: here and at src/a.py:2; the pipeline was not run\n"
            "  at: src/a.py:5\n"
            "  hint: give one of them another name; for a second query into one table write an append flow"
        ),
    ),
    "a view over a stream": (
        "@dp.materialized_view\ndef a():\n    return spark.readStream.format('rate').load()\n",
        (
            "[QUERY_STREAMING] materialized view a: its query reads a stream; the pipeline was not run\n"
            "  at: src/a.py:2\n"
            "  hint: remove STREAM or readStream from the query, or make it a streaming table"
        ),
    ),
    "a stream over a batch": (
        "dp.create_streaming_table('a')\n@dp.append_flow(target='a')\ndef f():\n    return spark.range(3)\n",
        (
            "[QUERY_NOT_STREAMING] streaming table a: its query reads no stream; the pipeline was not run\n"
            "  at: src/a.py:3\n"
            "  hint: read a stream: spark.readStream or STREAM(...); or make it a materialized view"
        ),
    ),
    "a stream of a socket": (
        "@dp.table\ndef a():\n    return spark.readStream.format('socket').option('port', 9999).load()\n",
        (
            "[SOURCE_NOT_REPEATABLE] a stream of format socket cannot be read again, so a failed batch would be lost; "
            "nothing was read\n"
            "  at: src/a.py:4\n"
            "  hint: send the rows to a Kafka topic, and read that: rivermouth dev produce lines lines.txt"
        ),
    ),
    "an unknown target": (
        "dp.create_streaming_table('orders')\n@dp.append_flow(target='order')\ndef f():\n    return spark.range(3)\n",
        (
            "[TARGET_UNKNOWN] flow f writes to order, which the pipeline does not define; the pipeline was not run\n"
            "  at: src/a.py:3\n"
            "  hint: did you mean 'orders'?"
        ),
    ),
    "two flows of one name": (
        (
            "dp.create_streaming_table('orders')\n"
            "@dp.append_flow(target='orders', name='f')\ndef one():\n    return spark.range(3)\n"
            "@dp.append_flow(target='orders', name='f')\ndef two():\n    return spark.range(3)\n"
        ),
        (
            "[FLOW_DEFINED_TWICE] flow f is defined twice: here and at src/a.py:3; the pipeline was not run\n"
            "  at: src/a.py:6\n"
            "  hint: give one of them another name: name=..."
        ),
    ),
    "a Python error at its top": (
        "x = 1\nprint(y)\n",
        (
            "[PYTHON_FILE_FAILED] src/a.py failed with NameError: name 'y' is not defined; the pipeline was not run\n"
            "  at: src/a.py:3\n"
            "  hint: rivermouth validate, after the line above is corrected"
        ),
    ),
    "a syntax error": (
        "def a(:\n    pass\n",
        (
            "[PYTHON_FILE_FAILED] src/a.py failed with SyntaxError: invalid syntax; the pipeline was not run\n"
            "  at: src/a.py:2\n"
            "  hint: rivermouth validate, after the line above is corrected"
        ),
    ),
    "a missing package": (
        "import not_there_at_all\n",
        (
            "[PYTHON_FILE_FAILED] src/a.py failed with ModuleNotFoundError: No module named 'not_there_at_all'; "
            "the pipeline was not run\n"
            "  at: src/a.py:2\n"
            "  hint: pip install not_there_at_all, or put the module into the pipeline's folder"
        ),
    ),
    "a Python error in a function": (
        "@dp.table\ndef a():\n    rows = []\n    return rows[3]\n",
        (
            "[QUERY_FUNCTION_FAILED] dataset a: its function failed with IndexError: list index out of range; "
            "nothing was written to it\n"
            "  at: src/a.py:5\n"
            "  hint: rivermouth validate, after the line above is corrected"
        ),
    ),
    "a function without a frame": (
        "@dp.table\ndef a():\n    spark.range(3)\n",
        (
            "[QUERY_FUNCTION_FAILED] dataset a: its function failed with TypeError: it returned NoneType, and "
            "no frame; nothing was written to it\n"
            "  at: src/a.py:2\n"
            "  hint: rivermouth validate, after the line above is corrected"
        ),
    ),
    "an unknown column": (
        "@dp.materialized_view\ndef a():\n    return spark.range(3).select('nothing')\n",
        (
            "[QUERY_INVALID] dataset a: Spark refuses its query: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, "
            "variable, or function parameter with name `nothing` cannot be resolved. Did you mean one of the "
            "following? [`id`]. SQLSTATE: 42703; nothing was written to it\n"
            "  at: src/a.py:4\n"
            "  hint: rivermouth validate, after the query is corrected"
        ),
    ),
    "two flows of which one aggregates without a watermark": (
        (
            "rate = spark.readStream.format('rate').load()\ndp.create_streaming_table('a')\n"
            "@dp.append_flow(target='a')\ndef f():\n    return rate.groupBy('value').count()\n"
            "@dp.append_flow(target='a')\ndef g():\n    return rate.selectExpr('value', 'value AS count')\n"
        ),
        (
            "[WATERMARK_MISSING] flow f aggregates a stream without a watermark on the time that it groups by, so no "
            "group is ever complete, and none can be appended; the pipeline was not run\n"
            "  at: src/a.py:4\n"
            '  hint: .withWatermark("event_time", "10 minutes") before groupBy; in SQL, behind STREAM(...): '
            "WATERMARK event_time DELAY OF INTERVAL 10 MINUTES"
        ),
    ),
    "a stream that is sorted": (
        "@dp.table\ndef a():\n    return spark.readStream.format('rate').load().sort('value')\n",
        (
            "[QUERY_INVALID] dataset a: Spark refuses its query: Sorting is not supported on streaming "
            "DataFrames/Datasets, unless it is on aggregated DataFrame/Dataset in Complete output mode; "
            "nothing was written to it\n"
            "  at: src/a.py:2\n"
            "  hint: rivermouth validate, after the query is corrected"
        ),
    ),
    "a generated column of a column that is not there": (
        (
            "@dp.table(schema='value bigint, d date GENERATED ALWAYS AS (CAST(at AS DATE))')\ndef a():\n"
            "    return spark.readStream.format('rate').load().select('value')\n"
        ),
        (
            "[QUERY_INVALID] dataset a: Spark refuses its query: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, "
            "variable, or function parameter with name `at` cannot be resolved. Did you mean one of the following? "
            "[`value`]. SQLSTATE: 42703; line 1 pos 5; nothing was written to it\n"
            "  at: src/a.py:2\n"
            "  hint: rivermouth validate, after the query is corrected"
        ),
    ),
    "a path of Databricks without a folder": (
        "@dp.table\ndef a():\n    return spark.readStream.schema('id int').json('/Volumes/main/raw')\n",
        (
            "[FILE_PATH_UNMAPPED] /Volumes/main/raw is a path of Databricks, and no setting gives a folder for it; "
            "nothing was read\n"
            "  at: src/a.py:4\n"
            '  hint: configuration: {"rivermouth.paths./Volumes/main": /the/folder}'
        ),
    ),
    "a table at a path of Databricks without a folder": (
        "@dp.table(path='/mnt/lake/a')\ndef a():\n    return spark.readStream.format('rate').load()\n",
        (
            "[FILE_PATH_UNMAPPED] /mnt/lake/a is a path of Databricks, and no setting gives a folder for it; "
            "nothing was written\n"
            "  at: src/a.py:2\n"
            '  hint: configuration: {"rivermouth.paths./mnt/lake": /the/folder}'
        ),
    ),
    "a folder that is missing": (
        "@dp.materialized_view\ndef a():\n    return spark.read.csv('/no/such/folder')\n",
        (
            "[FILE_SOURCE_MISSING] source /no/such/folder does not exist; nothing was read\n"
            "  at: src/a.py:4\n"
            "  hint: make the folder, or correct the path"
        ),
    ),
    "a table of a catalog that is not there": (
        "@dp.materialized_view\ndef a():\n    return spark.read.table('bakehouse.sales.orders')\n",
        (
            "[DATASET_UNKNOWN] a reads bakehouse.sales.orders, which is neither in the pipeline, nor a table of the "
            "lake or the catalog; nothing was run\n"
            "  at: src/a.py:4\n"
            "  hint: known: a"
        ),
    ),
    "a column that is not declared": (
        "@dp.table(schema='value bigint')\ndef a():\n    return spark.readStream.format('rate').load()\n",
        (
            "[DEFINITION_INVALID] dataset a: the query has column timestamp, which is not declared; the pipeline was "
            "not run\n"
            "  at: src/a.py:2\n"
            "  hint: add timestamp timestamp to the columns of a, or leave it out of the query"
        ),
    ),
    "a column whose declared type cannot hold its values": (
        "@dp.materialized_view(schema='id int')\ndef a():\n    return spark.range(3)\n",
        (
            "[DEFINITION_INVALID] dataset a: the query has column id as bigint, and it is declared as int; the "
            "pipeline was not run\n"
            "  at: src/a.py:2\n"
            "  hint: write CAST(id AS int) AS id in the query, or declare it as bigint"
        ),
    ),
    "two flows that bring a column as different types": (
        (
            "rate = spark.readStream.format('rate').load()\ndp.create_streaming_table('a')\n"
            "@dp.append_flow(target='a')\ndef f():\n    return rate.selectExpr('value')\n"
            "@dp.append_flow(target='a')\ndef g():\n    return rate.selectExpr('CAST(value AS STRING) AS value')\n"
        ),
        (
            "[DEFINITION_INVALID] dataset a: flow g has column value as string, and another flow brings it as bigint; "
            "the pipeline was not run\n"
            "  at: src/a.py:7\n"
            "  hint: write CAST(value AS bigint) AS value in the query"
        ),
    ),
    "an expectation on an unknown column": (
        (
            "@dp.materialized_view\n@dp.expect('some', 'id > 0')\n@dp.expect('known', 'nothing > 0')\ndef a():\n"
            "    return spark.range(3)\n"
        ),
        (
            "[DEFINITION_INVALID] dataset a: expectation 'known': [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, "
            "variable, or function parameter with name `nothing` cannot be resolved. Did you mean one of the "
            "following? [`id`]. SQLSTATE: 42703; line 2 pos 0; the pipeline was not run\n"
            "  at: src/a.py:2\n"
            "  hint: correct its condition"
        ),
    ),
    "a snapshot that is not there yet": (
        (
            "dp.create_streaming_table('a')\n"
            "dp.create_auto_cdc_from_snapshot_flow('a', lambda latest: None, keys=['id'])\n"
        ),
        (
            "[SNAPSHOT_MISSING] flow a: its function returned None, and a has no columns yet; the pipeline was not "
            "run\n"
            "  at: src/a.py:3\n"
            '  hint: dp.create_streaming_table("a", schema="id bigint, ...") declares them; or run with a snapshot'
        ),
    ),
    "a table property with a wrong value": (
        "@dp.table(table_properties={'delta.enableChangeDataFeed': 'maybe'})\ndef a():\n    return spark.range(3)\n",
        (
            '[DEFINITION_INVALID] dataset a: table property delta.enableChangeDataFeed: For input string: "maybe"; '
            "the pipeline was not run\n"
            "  at: src/a.py:2\n"
            "  hint: correct delta.enableChangeDataFeed"
        ),
    ),
    "a generated column that SQL cannot read": (
        (
            "@dp.table(schema='value bigint, d date GENERATED ALWAYS AS CAST(at AS DATE)')\ndef a():\n"
            "    return spark.readStream.format('rate').load()\n"
        ),
        "[SQL_INVALID] unexpected CAST, expected (; nothing was run\n  at: src/a.py:2\n  hint: write ( here",
    ),
    "a sink without a value": (
        _into_kafka("'topic': 't'", "'value AS id'"),
        (
            "[SINK_COLUMNS_INVALID] flow f into sink k: its query has no column value; "
            "the pipeline was not run\n"
            "  at: src/a.py:3\n"
            "  hint: select to_json(struct(*)) AS value"
        ),
    ),
    "a sink without a topic": (
        _into_kafka("", "'CAST(value AS STRING) AS value'"),
        (
            "[SINK_COLUMNS_INVALID] flow f into sink k: its query has no column topic, and the sink names "
            "none; the pipeline was not run\n"
            "  at: src/a.py:3\n"
            '  hint: options={"topic": "orders", ...} at the sink, or a column topic'
        ),
    ),
    "a sink whose key is a number": (
        _into_kafka("'topic': 't'", "'value AS key', 'CAST(value AS STRING) AS value'"),
        (
            "[SINK_COLUMNS_INVALID] flow f into sink k: its query has a column key of type bigint, and Kafka "
            "takes string or binary; the pipeline was not run\n"
            "  at: src/a.py:3\n"
            "  hint: CAST(key AS string)"
        ),
    ),
    "no sequence": (
        "dp.create_streaming_table('a')\ndp.create_auto_cdc_flow(target='a', source='b', keys=['id'])\n",
        (
            "[DEFINITION_INVALID] AUTO CDC into a: sequence_by is missing; the pipeline was not run\n"
            "  at: src/a.py:3\n"
            "  hint: give sequence_by="
        ),
    ),
    "an unknown key": (
        (
            "dp.create_streaming_table('a')\n"
            "@dp.temporary_view\ndef b():\n    return spark.readStream.format('rate').load()\n"
            "dp.create_auto_cdc_flow(target='a', source='b', keys=['valu'], sequence_by='timestamp')\n"
        ),
        (
            "[CDC_COLUMN_UNKNOWN] flow a: keys names valu, which is no column of its source; the pipeline was not run\n"
            "  at: src/a.py:6\n"
            "  hint: did you mean 'value'?"
        ),
    ),
    "an unknown argument": (
        "@dp.table(partitions=['day'])\ndef a():\n    return spark.range(3)\n",
        (
            "[DEFINITION_INVALID] table a: there is no argument partitions; the pipeline was not run\n"
            "  at: src/a.py:2\n"
            "  hint: did you mean 'partition_cols'?"
        ),
    ),
    "a row filter": (
        "@dp.table(row_filter='ROW FILTER f ON (id)')\ndef a():\n    return spark.range(3)\n",
        (
            "[DEFINITION_INVALID] table a: row_filter changes what readers see, and Spark has no means for it; "
            "the pipeline was not run\n"
            "  at: src/a.py:2\n"
            "  hint: remove row_filter; filter in the query instead"
        ),
    ),
    "a secret that is not there": (
        "dbutils.secrets.get('kafka', 'api-key')\n",
        (
            "[SECRET_MISSING] secret kafka/api-key: the variable KAFKA_API_KEY is not set; nothing was run\n"
            "  at: src/a.py:2\n"
            "  hint: export KAFKA_API_KEY=..."
        ),
    ),
    "a widget without a value": (
        "dbutils.widgets.get('day')\n",
        (
            "[WIDGET_MISSING] widget day has no value; the pipeline was not run\n"
            "  at: src/a.py:2\n"
            "  hint: rivermouth run --param day=VALUE"
        ),
    ),
    "a configuration value that is not there": (
        "def servers():\n    return spark.conf.get('KAFKA_SERVER')\nservers()\n",
        (
            "[CONFIGURATION_MISSING] configuration KAFKA_SERVER has no value; the pipeline was not run\n"
            "  at: src/a.py:3\n"
            "  hint: rivermouth run --param KAFKA_SERVER=VALUE"
        ),
    ),
    "a configuration value that a query lacks": (
        "@dp.table\ndef a():\n    return spark.readStream.table(spark.conf.get('orders.table'))\n",
        (
            "[CONFIGURATION_MISSING] configuration orders.table has no value; the pipeline was not run\n"
            "  at: src/a.py:4\n"
            "  hint: rivermouth run --param orders.table=VALUE"
        ),
    ),
    "a folder of Databricks that dbutils lists": (
        "dbutils.fs.ls('/Volumes/main/raw')\n",
        (
            "[FILE_PATH_UNMAPPED] /Volumes/main/raw is a path of Databricks, and no setting gives a folder for it; "
            "nothing was read\n"
            "  at: src/a.py:2\n"
            '  hint: configuration: {"rivermouth.paths./Volumes/main": /the/folder}'
        ),
    ),
    "a folder that is not there and that dbutils lists": (
        "dbutils.fs.ls('file:/not/there')\n",
        (
            "[FILE_SOURCE_MISSING] source file:/not/there does not exist; nothing was read\n"
            "  at: src/a.py:2\n"
            "  hint: make the folder, or correct the path"
        ),
    ),
    "expectations of a flow": (
        (
            "dp.create_streaming_table('t')\n@dp.append_flow(target='t')\n@dp.expect_or_drop('an id', 'id > 0')\n"
            "def a():\n    return spark.readStream.format('rate').load()\n"
        ),
        (
            "[DEFINITION_INVALID] append_flow into t: its expectations would not be checked; the pipeline was not run\n"
            "  at: src/a.py:3\n"
            "  hint: write them at the target, dp.create_streaming_table(name, expect_all={...}), or at a view"
        ),
    ),
    "expectations above a sink": (
        "@dp.expect_all({'an id': 'id > 0'})\n@dp.foreach_batch_sink(name='s')\ndef a(batch, number):\n    pass\n",
        (
            "[DEFINITION_INVALID] sink s: its expectations would not be checked; the pipeline was not run\n"
            "  at: src/a.py:2\n"
            "  hint: write them at the target, dp.create_streaming_table(name, expect_all={...}), or at a view"
        ),
    ),
    "a Delta sink without a place": (
        (
            "dp.create_sink('s', 'delta', {'mergeSchema': 'true'})\n@dp.append_flow(target='s')\n"
            "def a():\n    return spark.readStream.format('rate').load()\n"
        ),
        (
            "[SINK_OPTION_REFUSED] sink s: option tableName is missing; the pipeline was not run\n"
            "  at: src/a.py:2\n"
            '  hint: options={"tableName": "gold.orders"}, or {"path": ...}'
        ),
    ),
    "a Delta sink into a table of the pipeline": (
        (
            "dp.create_streaming_table('t')\ndp.create_sink('s', 'delta', {'tableName': 't'})\n"
            "@dp.append_flow(target='s')\ndef a():\n    return spark.readStream.format('rate').load()\n"
        ),
        (
            "[SINK_OPTION_REFUSED] sink s: option tableName names the dataset t; the pipeline was not run\n"
            "  at: src/a.py:3\n"
            '  hint: dp.append_flow(target="t"), in the place of the sink'
        ),
    ),
    "a schema that is none": (
        "@dp.table(schema='id biggint')\ndef a():\n    return spark.readStream.format('rate').load()\n",
        (
            "[DATASET_SCHEMA_INVALID] dataset a: its schema cannot be read: [UNSUPPORTED_DATATYPE] Unsupported data "
            'type "BIGGINT". SQLSTATE: 0A000 (line 1, pos 3); the pipeline was not run\n'
            "  at: src/a.py:2\n"
            '  hint: write it like this: schema="id BIGINT, name STRING"'
        ),
    ),
    "nothing": (
        "x = 1\n",
        (
            "[NOTHING_DEFINED] pipeline shop: its files define no table and no view: src/a.py; nothing was run\n"
            "  hint: rivermouth init --pipeline, for a pipeline to start from"
        ),
    ),
    "a table that is not there": (
        "@dp.table\ndef a():\n    return spark.readStream.format('rate').load()\n",
        "[DATASET_NOT_IN_PIPELINE] pipeline shop defines no table b; nothing was run\n  hint: known: a",
    ),
    "an append flow into a target of AUTO CDC": (
        CDC + "@dp.append_flow(target='t')\ndef more():\n    return spark.readStream.table('changes')\n",
        (
            "[DEFINITION_INVALID] flow more: it writes to t, whose rows flow t at src/a.py:6 changes by AUTO CDC; "
            "the pipeline was not run\n"
            "  at: src/a.py:7\n"
            "  hint: write its rows into another table, or make it an AUTO CDC flow"
        ),
    ),
    "AUTO CDC flows with other keys": (
        CDC + "dp.create_auto_cdc_flow('t', 'changes', ['other'], 'ts', name='more')\n",
        (
            "[DEFINITION_INVALID] flow more: its keys are not those of flow t at src/a.py:6: id; the pipeline was not "
            "run\n"
            "  at: src/a.py:7\n"
            "  hint: write the keys id"
        ),
    ),
    "AUTO CDC flows of two SCD types": (
        CDC + "dp.create_auto_cdc_flow('t', 'changes', ['ID'], 'ts', name='more', stored_as_scd_type=2)\n",
        (
            "[DEFINITION_INVALID] flow more: flow t at src/a.py:6 keeps t as SCD type 1; the pipeline was not run\n"
            "  at: src/a.py:7\n"
            "  hint: write SCD type 1"
        ),
    ),
    "snapshots and changes into one target": (
        CDC + "dp.create_auto_cdc_from_snapshot_flow('t', 'changes', ['id'], name='more')\n",
        (
            "[DEFINITION_INVALID] flow more: t has flow t at src/a.py:6, and a flow of snapshots must be the only one; "
            "the pipeline was not run\n"
            "  at: src/a.py:7\n"
            "  hint: give it a target of its own"
        ),
    ),
    "AUTO CDC flows in which a null does not do the same": (
        CDC + "dp.create_auto_cdc_flow('t', 'changes', ['id'], 'ts', name='more', ignore_null_updates=True)\n",
        (
            "[DEFINITION_INVALID] flow more: a null in its changes does not do the same as in those of flow t at "
            "src/a.py:6; the pipeline was not run\n"
            "  at: src/a.py:7\n"
            "  hint: write the same ignore_null_updates and columns_to_update in both flows"
        ),
    ),
    "AUTO CDC flows whose versions begin elsewhere": (
        CDC.replace("'ts')", "'ts', stored_as_scd_type=2)")
        + (
            "dp.create_auto_cdc_flow('t', 'changes', ['id'], 'ts', name='more', stored_as_scd_type=2, "
            "track_history_except_column_list=['other'])\n"
        ),
        (
            "[DEFINITION_INVALID] flow more: its versions do not begin where those of flow t at src/a.py:6 do; the "
            "pipeline was not run\n"
            "  at: src/a.py:7\n"
            "  hint: write the same track_history_column_list or track_history_except_column_list in both flows"
        ),
    ),
    "a change of AUTO CDC with a column that rivermouth adds": (
        CDC.replace("'value id',", "'value id', 'value __Sequence',"),
        (
            "[DEFINITION_INVALID] flow t: its changes have column __sequence, and rivermouth adds a column of that "
            "name; the pipeline was not run\n"
            "  at: src/a.py:6\n"
            '  hint: except_column_list=["__sequence"]'
        ),
    ),
    "what a null does, said twice": (
        CDC.replace("'ts')", "'ts', ignore_null_updates=True, ignore_null_updates_column_list=['other'])"),
        (
            "[DEFINITION_INVALID] flow t: it has ignore_null_updates and ignore_null_updates_column_list, and one of "
            "them says which values a change brings; the pipeline was not run\n"
            "  at: src/a.py:6\n"
            "  hint: keep ignore_null_updates"
        ),
    ),
    "null updates in versions": (
        CDC.replace("'ts')", "'ts', ignore_null_updates=True, stored_as_scd_type=2)"),
        (
            "[DEFINITION_INVALID] flow t: ignore_null_updates is for SCD type 1: a version of SCD type 2 has all "
            "values of its change; the pipeline was not run\n"
            "  at: src/a.py:6\n"
            "  hint: remove ignore_null_updates, and fill the values in the source"
        ),
    ),
    "a target without its key": (
        CDC.replace("'ts')", "'ts', column_list=['other', 'ts'])"),
        (
            "[DEFINITION_INVALID] flow t: column_list leaves out the key id; the pipeline was not run\n"
            "  at: src/a.py:6\n"
            "  hint: add id to column_list"
        ),
    ),
    "a text that is padded": (
        (
            "@dp.table(schema='id struct<a: CHAR(3), b: VARCHAR(4)>')\ndef a():\n"
            "    return spark.readStream.format('rate').load()\n"
        ),
        (
            "[DEFINITION_INVALID] streaming table a: column id is declared as struct<a:char(3),b:varchar(4)>, and "
            "Spark reads its values with blanks behind them; the pipeline was not run\n"
            "  at: src/a.py:2\n"
            "  hint: declare it as struct<a:varchar(3),b:varchar(4)>"
        ),
    ),
    "a history of a column that the target does not have": (
        CDC.replace(
            "'ts')", "'ts', except_column_list=['ts'], stored_as_scd_type=2, track_history_column_list=['TS'])"
        ),
        (
            "[DEFINITION_INVALID] flow t: track_history_column_list names TS, which its target does not have; the "
            "pipeline was not run\n"
            "  at: src/a.py:6\n"
            "  hint: remove TS from track_history_column_list"
        ),
    ),
    "nulls that are ignored in keys alone": (
        CDC.replace("'ts')", "'ts', ignore_null_updates_column_list=['ID'])"),
        (
            "[DEFINITION_INVALID] flow t: ignore_null_updates_column_list names nothing but keys; the pipeline was not "
            "run\n"
            "  at: src/a.py:6\n"
            "  hint: name a column in ignore_null_updates_column_list that is no key"
        ),
    ),
    "a target whose key is excepted": (
        CDC.replace("'ts')", "'ts', except_column_list=['ID'])"),
        (
            "[DEFINITION_INVALID] flow t: except_column_list leaves out the key id; the pipeline was not run\n"
            "  at: src/a.py:6\n"
            "  hint: remove id from except_column_list"
        ),
    ),
    "columns to update in no list": (
        CDC.replace("'ts')", "'ts', columns_to_update='other')"),
        (
            "[DEFINITION_INVALID] flow t: columns_to_update names other, which is bigint and no array<string>; "
            "the pipeline was not run\n"
            "  at: src/a.py:6\n"
            "  hint: split it in the source, for example split(other, ',')"
        ),
    ),
    "two expectations of one name": (
        (
            "@dp.table\n@dp.expect('sound', 'id > 0')\n@dp.expect_or_drop('sound', inv='id > 1')\n"
            "def a():\n    return spark.readStream.format('rate').load()\n"
        ),
        (
            "[DEFINITION_INVALID] dataset a: two expectations are called sound; the pipeline was not run\n"
            "  at: src/a.py:2\n"
            "  hint: give one of them another name"
        ),
    ),
    "a misspelt property of pipelines": (
        (
            "@dp.table(table_properties={'pipelines.reset.alowed': 'false'})\n"
            "def a():\n    return spark.readStream.format('rate').load()\n"
        ),
        (
            "[DEFINITION_INVALID] dataset a: table property pipelines.reset.alowed is not known; "
            "the pipeline was not run\n"
            "  at: src/a.py:2\n"
            "  hint: did you mean 'pipelines.reset.allowed'?"
        ),
    ),
    "a property that is no number": (
        "dp.create_streaming_table('t', table_properties={'Pipelines.cdc.tombstoneGCThresholdInSeconds': '2 days'})\n",
        (
            "[DEFINITION_INVALID] dataset t: table property pipelines.cdc.tombstoneGCThresholdInSeconds is no number "
            "of seconds; the pipeline was not run\n"
            "  at: src/a.py:2\n"
            "  hint: pipelines.cdc.tombstoneGCThresholdInSeconds = 172800, for two days"
        ),
    ),
    "a property that is neither true nor false": (
        "dp.create_streaming_table('t', table_properties={'pipelines.reset.allowed': 'no'})\n",
        (
            "[DEFINITION_INVALID] dataset t: table property pipelines.reset.allowed is neither true nor false; "
            "the pipeline was not run\n"
            "  at: src/a.py:2\n"
            "  hint: pipelines.reset.allowed = false, or true"
        ),
    ),
    "a notebook that ends with an error": (
        "import sys\nsys.exit(3)\n",
        (
            "[PYTHON_FILE_FAILED] src/a.py failed with SystemExit: 3; the pipeline was not run\n"
            "  at: src/a.py:3\n"
            "  hint: rivermouth validate, after the line above is corrected"
        ),
    ),
    "a notebook that ends before it defines something": (
        "dbutils.notebook.exit('later')\n@dp.table\ndef a():\n    return spark.range(1)\n",
        (
            "[NOTHING_DEFINED] pipeline shop: its files define no table and no view: src/a.py; nothing was run\n"
            "  hint: rivermouth init --pipeline, for a pipeline to start from"
        ),
    ),
    "%run of a file that is not there": (
        NOTEBOOK + "# MAGIC %run ./helpers $day=1\n",
        (
            "[NOTEBOOK_INVALID] src/a.py: %run: there is no notebook ./helpers; nothing was run\n"
            "  at: src/a.py:4\n"
            "  hint: write a path relative to src/a.py"
        ),
    ),
    "%run of itself": (
        NOTEBOOK + "# MAGIC %run ./a\n",
        ("[NOTEBOOK_INVALID] src/a.py: %run: ./a runs this file; nothing was run\n  at: src/a.py:4\n  hint: remove it"),
    ),
    "read_files without STREAM": (
        (
            "@dp.table\ndef rows():\n    return spark.readStream.format('rate').load()\n"
            "dp.create_streaming_table('b')\n@dp.append_flow(target='b')\n"
            "def f():\n    return spark.sql(\"SELECT * FROM read_files('src', format => 'text')\")\n"
        ),
        (
            "[QUERY_NOT_STREAMING] streaming table b: its query reads no stream; the pipeline was not run\n"
            "  at: src/a.py:6\n"
            "  hint: write STREAM read_files(...); or make it a materialized view"
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_said_at_the_users_line_and_nothing_is_written(folder, name):
    source, text = CASES[name]
    folder.write("src/a.py", HEAD + source)
    with pytest.raises(RivermouthError) as refused:
        folder.plan(refresh=("b",))
    assert str(refused.value) == text
    assert not (folder.folder / "lake").exists()


def test_definitions_outside_of_a_run_are_refused():
    from rivermouth.pipelines.python.datasets import table

    with pytest.raises(RivermouthError) as refused:
        table(lambda: None)
    assert str(refused.value) == (
        "[DEFINITION_OUTSIDE] table was called outside of a pipeline run; nothing was defined\n"
        "  hint: rivermouth run FILE"
    )
