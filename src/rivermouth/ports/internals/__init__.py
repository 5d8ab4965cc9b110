"""What is not public in Spark, Delta and PySpark: nothing else uses it.

`versions.py` has the versions for which this is written, and the rule for other ones. The Java side is the package
``rivermouth.internals`` in ``src/java``. ``tools/spark_internals.py`` checks that no other module names such a class,
method or attribute.
"""
