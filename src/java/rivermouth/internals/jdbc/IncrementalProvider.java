package rivermouth.internals.jdbc;

import java.util.Locale;
import java.util.TreeMap;

import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.sources.StreamSourceProvider;
import org.apache.spark.sql.types.StructType;

import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Map;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A table of a database as a stream of new rows: those with a greater value in one column than all rows before.
 *
 * Options are those of Spark's JDBC source, and {@code incrementalColumn}.
 */
public final class IncrementalProvider implements StreamSourceProvider {
    @Override
    public Tuple2<String, StructType> sourceSchema(
            SQLContext context, Option<StructType> schema, String name, Map<String, String> options) {
        return new Tuple2<>("jdbc", table(context, options).schema());
    }

    @Override
    public Source createSource(
            SQLContext context, String place, Option<StructType> schema, String name, Map<String, String> options) {
        return new IncrementalSource(table(context, options));
    }

    private static IncrementalTable table(SQLContext context, Map<String, String> options) {
        TreeMap<String, String> known = new TreeMap<>();
        CollectionConverters.asJava(options)
            .forEach((option, value) -> known.put(option.toLowerCase(Locale.ROOT), value));
        return new IncrementalTable((SparkSession) context.sparkSession(), known);
    }
}
