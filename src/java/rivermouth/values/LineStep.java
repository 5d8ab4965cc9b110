package rivermouth.values;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/** A value is one line whose parts may be quoted: a text for each column, or null. */
abstract class LineStep extends Step {
    private static final long serialVersionUID = 1;

    final List<String> columns;
    final byte[] separator;
    final byte[] quote;
    final byte[] escape;
    private final byte[] nullText;
    private final List<String> dialect;

    /**
     * A line of one flow.
     *
     * @param columns their names
     * @param separator the text between parts
     * @param quote the text around a part; empty if there is none
     * @param escape the text before a quote within a part; the quote itself if it is doubled; may be empty
     * @param nullText a part that is this and not quoted is null; null if none is
     * @param more what else decides how a line is read
     */
    LineStep(List<String> columns, String separator, String quote, String escape, String nullText, String... more) {
        this.columns = List.copyOf(columns);
        this.separator = bytes(separator);
        this.quote = bytes(quote);
        this.escape = bytes(escape);
        this.nullText = nullText == null ? null : bytes(nullText);
        this.dialect = new ArrayList<>(Arrays.asList(separator, quote, escape, nullText));
        this.dialect.addAll(List.of(more));
    }

    /** The texts of a value's line, by column. */
    abstract Object[] texts(byte[] value);

    @Override
    final Object of(byte[] value) {
        checkUtf8(value);
        return new GenericArrayData(texts(value));
    }

    @Override
    final DataType type() {
        return DataTypes.createArrayType(DataTypes.StringType, true);
    }

    @Override
    final List<Object> key() {
        return List.of(columns, dialect);
    }

    /** Whether a part without quotes is null. */
    final boolean isNull(byte[] value, int begin, int end) {
        return nullText != null && Arrays.equals(value, begin, end, nullText, 0, nullText.length);
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
