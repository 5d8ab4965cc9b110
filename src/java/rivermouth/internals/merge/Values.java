package rivermouth.internals.merge;

import static org.apache.spark.sql.functions.col;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

import org.apache.spark.sql.Column;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.classic.Dataset;

/**
 * All values of a column.
 *
 * @param column its name
 * @param sorted whole numbers, or texts in the order of their bytes; none is null
 */
record Values(String column, List<Object> sorted) {
    static final char REPLACEMENT = '\ufffd';

    /** The values that the changes have in the columns of these ranges; without columns where some are not certain. */
    static List<Values> of(Dataset<Row> changes, List<Range> ranges) {
        Column[] columns = ranges.stream()
                .map(range -> col("`" + range.column().replace("`", "``") + "`"))
                .toArray(Column[]::new);
        List<Row> rows = changes.select(columns).collectAsList();
        List<Values> found = new ArrayList<>();
        for (int i = 0; i < columns.length; i++) {
            List<Object> values = told(rows, i);
            if (values != null) {
                found.add(new Values(ranges.get(i).column(), values));
            }
        }
        return found;
    }

    private static List<Object> told(List<Row> rows, int column) {
        List<Object> values = new ArrayList<>(rows.size());
        for (Row row : rows) {
            Object value = row.get(column);
            // Bytes that are no text were made others.
            if (value == null || value instanceof String text && text.indexOf(REPLACEMENT) >= 0) {
                return null;
            }
            values.add(value instanceof Number number ? (Object) number.longValue() : value);
        }
        values.sort(Values::compared);
        return values;
    }

    static int compared(Object one, Object other) {
        return one instanceof String text
                ? Arrays.compareUnsigned(utf8(text), utf8((String) other))
                : Long.compare((Long) one, (Long) other);
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
