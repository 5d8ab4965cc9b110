package rivermouth.internals.jdbc;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.execution.streaming.Offset;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.types.StructType;

import scala.Option;

/** Spark's view of an {@link IncrementalTable}: its position is the greatest value that was read. */
final class IncrementalSource implements Source {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final IncrementalTable table;

    IncrementalSource(IncrementalTable table) {
        this.table = table;
    }

    @Override
    public StructType schema() {
        return table.schema();
    }

    @Override
    public Option<Offset> getOffset() {
        String newest = table.newest();
        return newest == null ? Option.empty() : Option.apply(new Position(newest));
    }

    @Override
    public Dataset<Row> getBatch(Option<Offset> start, Offset end) {
        String before = start.isEmpty() ? null : value(start.get());
        Dataset<Row> rows = table.rows(before, value(end));
        return table.session().internalCreateDataFrame(
            ((org.apache.spark.sql.classic.Dataset<Row>) rows).queryExecution().toRdd(), table.schema(), true);
    }

    @Override
    public void stop() {
        // Each read opens and closes connections of its own.
    }

    private static String value(Offset position) {
        try {
            return JSON.readTree(position.json()).get("value").asText();
        } catch (JsonProcessingException | NullPointerException error) {
            throw new IllegalStateException("no position of this source: " + position.json(), error);
        }
    }

    /** As it is in a checkpoint and in a ledger entry: {@code {"value":"17"}}. */
    private static final class Position extends Offset {
        private final String value;

        Position(String value) {
            this.value = value;
        }

        @Override
        public String json() {
            return JSON.createObjectNode().put("value", value).toString();
        }
    }
}
