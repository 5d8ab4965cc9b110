package rivermouth.internals.jdbc;

import java.sql.Timestamp;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.util.IntervalUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.jdbc.JdbcDialect;
import org.apache.spark.sql.jdbc.JdbcDialects;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.CalendarInterval;
import org.apache.spark.unsafe.types.UTF8String;

/** A table or query of a database that has a column that grows with each row. */
public final class IncrementalTable {
    static final String COLUMN = "incrementalcolumn";
    static final String DELAY = "incrementaldelay";
    /** Options that say how a read is split; a question that has one row for an answer is not. */
    private static final List<String> OF_PARTS =
        List.of("partitioncolumn", "lowerbound", "upperbound", "numpartitions", "dbtable", "query", "customschema");

    private final SparkSession session;
    private final TreeMap<String, String> options;
    private final String column;
    private final String delay;
    private final StructType schema;

    IncrementalTable(SparkSession session, Map<String, String> options) {
        this.session = session;
        this.options = new TreeMap<>(options);
        this.column = this.options.remove(COLUMN);
        this.delay = this.options.remove(DELAY);
        this.schema = read(this.options).schema();
    }

    /** Whether a text is an interval, as {@code 10 seconds}. */
    public static boolean isInterval(String text) {
        try {
            IntervalUtils.stringToInterval(UTF8String.fromString(text));
            return true;
        } catch (IllegalArgumentException error) {
            return false;
        }
    }

    StructType schema() {
        return schema;
    }

    /** The type of the column that grows, in SQL. */
    private DataType type() {
        return schema.apply(column).dataType();
    }

    /**
     * The greatest value of the column, as text of Spark's; with a delay, of those that are older.
     *
     * @return null where there is no such row
     * @throws IllegalStateException rows have no value there, and no batch would bring them
     */
    String newest() {
        Number nulls = (Number) answer("COUNT(*)", quoted() + " IS NULL").head().get(0);
        if (nulls.longValue() > 0) {
            throw new IllegalStateException(
                nulls + " rows of " + name() + " have no value in " + column + ", and no batch would bring them");
        }
        Column newest = functions.col("answer").cast(type()).cast("string");
        return answer("MAX(" + quoted() + ")", until()).select(newest).head().getString(0);
    }

    /** The rows with values after {@code start}, all if it is null, and up to {@code end}. */
    Dataset<Row> rows(String start, String end) {
        Dataset<Row> table = read(options);
        for (StructField each : schema.fields()) {
            DataType type = table.schema().apply(each.name()).dataType();
            if (!type.equals(each.dataType())) {
                throw new IllegalStateException(
                    "column " + each.name() + " of " + name() + " is " + type.sql() + " now, and was "
                        + each.dataType().sql());
            }
        }
        Column[] columns = new Column[schema.length()];
        for (int i = 0; i < columns.length; i++) {
            columns[i] = table.col("`" + schema.apply(i).name().replace("`", "``") + "`");
        }
        Column grown = table.col("`" + column.replace("`", "``") + "`");
        Column wanted = grown.leq(literal(end));
        return table.where(start == null ? wanted : wanted.and(grown.gt(literal(start)))).select(columns);
    }

    SparkSession session() {
        return session;
    }

    private Column literal(String value) {
        return functions.lit(value).cast(type());
    }

    /** A condition that leaves out rows which may still get company of the same age. */
    private String until() {
        if (delay == null) {
            return "";
        }
        CalendarInterval interval = IntervalUtils.stringToInterval(UTF8String.fromString(delay));
        Instant until = Instant.now().minus(interval.extractAsPeriod()).minus(interval.extractAsDuration());
        return quoted() + " <= " + dialect().compileValue(Timestamp.from(until));
    }

    private Dataset<Row> answer(String wanted, String condition) {
        TreeMap<String, String> asked = new TreeMap<>(options);
        asked.keySet().removeAll(OF_PARTS);
        String where = condition.isEmpty() ? "" : " WHERE " + condition;
        asked.put("query", "SELECT " + wanted + " AS answer FROM " + from() + where);
        return read(asked);
    }

    private String from() {
        String query = options.get("query");
        return query == null ? options.get("dbtable") : "(" + query + ") rivermouth_source";
    }

    private String name() {
        return options.containsKey("query") ? "the query" : options.get("dbtable");
    }

    private String quoted() {
        return dialect().quoteIdentifier(column);
    }

    private JdbcDialect dialect() {
        return JdbcDialects.get(options.get("url"));
    }

    private Dataset<Row> read(Map<String, String> given) {
        return session.read().format("jdbc").options(given).load();
    }
}
