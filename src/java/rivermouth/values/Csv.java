package rivermouth.values;

import java.io.ByteArrayOutputStream;
import java.util.List;

import org.apache.spark.unsafe.types.UTF8String;

/** A value is one line of delimited fields: the text of each, null where it is the text for null and not quoted. */
public final class Csv extends LineStep {
    private static final long serialVersionUID = 1;

    /**
     * A line of one flow.
     *
     * @param columns their names, in the order of the fields
     * @param delimiter the text between fields
     * @param quote the text around fields; empty if there is none
     * @param escape the text before a quote within a field; if it is the quote itself, then only in quoted fields; may
     *     be empty
     * @param nullText a field that is this and not quoted is null; null if none is
     */
    public Csv(List<String> columns, String delimiter, String quote, String escape, String nullText) {
        super(columns, delimiter, quote, escape, nullText);
    }

    @Override
    Object[] texts(byte[] value) {
        return new Line(value).fields();
    }

    private static String counted(int number, String what) {
        return number + " " + what + (number == 1 ? "" : "s");
    }

    /** One value while it is read. */
    private final class Line extends Cursor {
        private int number;

        Line(byte[] value) {
            super(value, Csv.this, "field");
        }

        Object[] fields() {
            Object[] found = new Object[columns.size()];
            while (true) {
                UTF8String text = stands(quote, at) ? quoted() : unquoted();
                if (number < found.length) {
                    found[number] = text;
                }
                number++;
                if (!stands(separator, at)) {
                    break;
                }
                at += separator.length;
            }
            end();
            if (number != found.length) {
                throw new Refused("FIELD_COUNT",
                        "the line has " + counted(number, "field") + ", and the schema " + counted(found.length, "column"));
            }
            return found;
        }

        private UTF8String unquoted() {
            int first = at;
            boolean escapes = false;
            while (!isEnd() && !stands(separator, at)) {
                boolean isEscape = isEscape(at);
                escapes |= isEscape;
                // What follows it is looked at below, unless the whole field is the text for null.
                at += isEscape ? escape.length + Math.max(1, lengthOfEscaped(at + escape.length)) : 1;
            }
            at = Math.min(at, value.length);
            if (isNull(value, first, at)) {
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
                    place = escaped(place + escape.length, before);
                    begin = place;
                } else {
                    place++;
                }
            }
            return text(before, begin, end);
        }

        @Override
        int escaped(int place, ByteArrayOutputStream out) {
            int length = lengthOfEscaped(place);
            if (length == 0) {
                throw wronglyEscaped();
            }
            out.write(value, place, length);
            return place + length;
        }

        private int lengthOfEscaped(int place) {
            for (byte[] each : new byte[][] {quote, escape, separator}) {
                if (stands(each, place)) {
                    return each.length;
                }
            }
            return 0;
        }

        @Override
        String name() {
            return number < columns.size() ? columns.get(number) : null;
        }
    }
}
