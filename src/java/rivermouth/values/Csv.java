package rivermouth.values;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;

import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/** A value is one line of delimited fields: the text of each, null where it is the text for null and not quoted. */
public final class Csv extends Step {
    private static final long serialVersionUID = 1;

    private final List<String> columns;
    private final List<String> dialect;
    private final byte[] delimiter;
    private final byte[] quote;
    private final byte[] escape;
    private final byte[] nullText;

    /**
     * A line of one flow.
     *
     * @param columns their names, in the order of the fields
     * @param delimiter stands between fields
     * @param quote stands around fields; empty if nothing does
     * @param escape stands before a quote within a field; if it is the quote itself, then only in quoted fields; may
     *     be empty
     * @param nullText a field that is this and not quoted is null; null if none is
     */
    public Csv(List<String> columns, String delimiter, String quote, String escape, String nullText) {
        this.columns = List.copyOf(columns);
        this.dialect = Arrays.asList(delimiter, quote, escape, nullText);
        this.delimiter = bytes(delimiter);
        this.quote = bytes(quote);
        this.escape = bytes(escape);
        this.nullText = nullText == null ? null : bytes(nullText);
    }

    @Override
    Object of(byte[] value) {
        checkUtf8(value);
        return new GenericArrayData(new Line(value).fields());
    }

    @Override
    DataType type() {
        return DataTypes.createArrayType(DataTypes.StringType, true);
    }

    @Override
    List<Object> key() {
        return List.of(columns, dialect);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String counted(int number, String what) {
        return number + " " + what + (number == 1 ? "" : "s");
    }

    /** One value while it is read. */
    private final class Line extends Cursor {
        private final boolean doubles = Arrays.equals(quote, escape);
        private int number;

        Line(byte[] value) {
            super(value);
        }

        Object[] fields() {
            Object[] found = new Object[columns.size()];
            while (true) {
                UTF8String text = stands(quote, at) ? quoted() : unquoted();
                if (number < found.length) {
                    found[number] = text;
                }
                number++;
                if (!stands(delimiter, at)) {
                    break;
                }
                at += delimiter.length;
            }
            end();
            if (number != found.length) {
                throw new Refused("FIELD_COUNT",
                        "the line has " + counted(number, "field") + ", and the schema " + counted(found.length, "column"));
            }
            return found;
        }

        private UTF8String quoted() {
            at += quote.length;
            int begin = at;
            ByteArrayOutputStream before = null;
            while (true) {
                if (at >= value.length) {
                    throw Refused.line(name(), "a quoted field is not closed");
                }
                if (!doubles && stands(escape, at)) {
                    before = kept(before, begin, at);
                    begin = at + escape.length;
                    at = begin + escaped(begin);
                } else if (!stands(quote, at)) {
                    at++;
                } else if (doubles && stands(quote, at + quote.length)) {
                    before = kept(before, begin, at);
                    begin = at + quote.length;
                    at = begin + quote.length;
                } else {
                    break;
                }
            }
            UTF8String text = text(before, begin, at);
            at += quote.length;
            if (!isEnd() && !stands(delimiter, at)) {
                throw Refused.line(name(), "something follows the closing quote of a field");
            }
            return text;
        }

        private UTF8String unquoted() {
            int first = at;
            boolean escapes = false;
            while (!isEnd() && !stands(delimiter, at)) {
                boolean isEscape = !doubles && stands(escape, at);
                escapes |= isEscape;
                // What follows it is looked at below, unless the whole field is the text for null.
                at += isEscape ? escape.length + Math.max(1, lengthOfEscaped(at + escape.length)) : 1;
            }
            at = Math.min(at, value.length);
            if (nullText != null && Arrays.equals(value, first, at, nullText, 0, nullText.length)) {
                return null;
            }
            return escapes ? unescaped(first, at) : UTF8String.fromBytes(value, first, at - first);
        }

        private UTF8String unescaped(int first, int end) {
            ByteArrayOutputStream before = null;
            int begin = first;
            int place = first;
            while (place < end) {
                if (stands(escape, place)) {
                    before = kept(before, begin, place);
                    begin = place + escape.length;
                    place = begin + escaped(begin);
                } else {
                    place++;
                }
            }
            return text(before, begin, end);
        }

        /** The length of what an escape stands before. */
        private int escaped(int place) {
            int length = lengthOfEscaped(place);
            if (length == 0) {
                throw Refused.line(name(), "an escape stands before something that is not to be escaped");
            }
            return length;
        }

        private int lengthOfEscaped(int place) {
            for (byte[] each : new byte[][] {quote, escape, delimiter}) {
                if (stands(each, place)) {
                    return each.length;
                }
            }
            return 0;
        }

        private String name() {
            return number < columns.size() ? columns.get(number) : null;
        }
    }
}
