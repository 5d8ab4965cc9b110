package rivermouth.values;

import java.io.ByteArrayOutputStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import org.apache.spark.unsafe.types.UTF8String;

/** A value is one line of pairs of a key and a value: the text of each column's key, null where that is not there. */
public final class KeyValue extends LineStep {
    private static final long serialVersionUID = 1;
    private static final String SINGLES = "nrtbf/";
    private static final byte[] MEANT = {'\n', '\r', '\t', '\b', '\f', '/'};
    private static final int HEX_DIGITS = 4;
    private static final int HEX = 16;

    private final byte[] within;
    private final boolean anyFields;
    private transient volatile Map<UTF8String, Integer> places;

    /**
     * A line of one flow.
     *
     * @param columns their names: the keys that are read
     * @param between the text between pairs; blanks may be there several times, and at both ends
     * @param within the text between a key and its value
     * @param quote the text around a value; empty if there is none
     * @param escape the text before a quote within a quoted value; the quote itself if it is doubled; a backslash also
     *     escapes what it escapes in JSON; may be empty
     * @param nullText a value that is this and not quoted is null; null if none is
     * @param anyFields whether a line may have none of the columns
     */
    public KeyValue(
            List<String> columns,
            String between,
            String within,
            String quote,
            String escape,
            String nullText,
            boolean anyFields) {
        super(columns, between, quote, escape, nullText, within, String.valueOf(anyFields));
        this.anyFields = anyFields;
        this.within = bytes(within);
    }

    @Override
    Object[] texts(byte[] value) {
        Line line = new Line(value, null);
        Object[] found = line.texts();
        if (!line.isNamed && !anyFields) {
            List<String> others = new ArrayList<>();
            new Line(value, others).texts();
            throw Named.none(columns, others);
        }
        return found;
    }

    private Map<UTF8String, Integer> places() {
        Map<UTF8String, Integer> known = places;
        if (known == null) {
            known = new HashMap<>();
            for (String column : columns) {
                known.put(UTF8String.fromString(column), known.size());
            }
            places = known;
        }
        return known;
    }

    /** One value while it is read. */
    private final class Line extends Cursor {
        private final Object[] found = new Object[columns.size()];
        private final boolean[] seen = new boolean[columns.size()];
        private final boolean blank = UTF8String.fromBytes(separator).toString().isBlank();
        /** Gets the keys that are no columns; null if nobody asks for them. */
        private final List<String> others;
        private String name;
        /** Whether a key was a column. */
        private boolean isNamed;

        Line(byte[] value, List<String> others) {
            super(value, KeyValue.this, "value");
            this.others = others;
        }

        Object[] texts() {
            skip(blank);
            if (isEnd()) {
                throw Refused.line(null, "the line has no pairs");
            }
            do {
                pair();
                if (!stands(separator, at)) {
                    break;
                }
                at += separator.length;
                skip(blank);
            } while (!isEnd());
            end();
            return found;
        }

        private void skip(boolean any) {
            while (any && stands(separator, at)) {
                at += separator.length;
            }
        }

        private void pair() {
            name = null;
            int first = at;
            while (!isEnd() && !stands(within, at) && !stands(separator, at)) {
                if (stands(quote, at)) {
                    throw Refused.line(null, "a quote is where no value begins");
                }
                at++;
            }
            if (at == first) {
                throw Refused.line(null, "a pair has no key");
            }
            Integer place = places().get(UTF8String.fromBytes(value, first, at - first));
            name = place == null ? null : columns.get(place);
            isNamed |= place != null;
            if (others != null) {
                others.add(UTF8String.fromBytes(value, first, at - first).toString());
            }
            if (!stands(within, at)) {
                throw Refused.line(name, "a key has no value");
            }
            at += within.length;
            UTF8String text = stands(quote, at) ? quoted() : unquoted();
            if (place != null) {
                if (seen[place]) {
                    throw new Refused("FIELD_TWICE", name, "field " + name + " is there twice in the line");
                }
                seen[place] = true;
                found[place] = text;
            }
        }

        @Override
        String name() {
            return name;
        }

        @Override
        int escaped(int place, ByteArrayOutputStream out) {
            for (byte[] each : new byte[][] {quote, escape}) {
                if (stands(each, place)) {
                    out.write(each, 0, each.length);
                    return place + each.length;
                }
            }
            int single = escape[0] == '\\' && place < value.length ? SINGLES.indexOf(value[place]) : -1;
            if (single >= 0) {
                out.write(MEANT[single]);
                return place + 1;
            }
            int unit = unit(place);
            int next = place + 1 + HEX_DIGITS;
            int point = unit;
            if (unit >= 0 && Character.isSurrogate((char) unit)) {
                // The other half of the character, or none.
                int low = next < value.length && value[next] == '\\' ? unit(next + 1) : -1;
                boolean pair = low >= 0 && Character.isSurrogatePair((char) unit, (char) low);
                point = pair ? Character.toCodePoint((char) unit, (char) low) : -1;
                next += 2 + HEX_DIGITS;
            }
            if (point < 0) {
                throw wronglyEscaped();
            }
            byte[] character = bytes(Character.toString(point));
            out.write(character, 0, character.length);
            return next;
        }

        /** The unit of UTF-16 that {@code uXXXX} says; -1 if that does not stand here. */
        private int unit(int place) {
            if (escape[0] != '\\' || place + HEX_DIGITS >= value.length || value[place] != 'u') {
                return -1;
            }
            int unit = 0;
            for (int index = 1; index <= HEX_DIGITS; index++) {
                byte sign = value[place + index];
                int digit = sign < 0 ? -1 : Character.digit(sign, HEX);
                if (digit < 0) {
                    return -1;
                }
                unit = unit * HEX + digit;
            }
            return unit;
        }

        private UTF8String unquoted() {
            int first = at;
            while (!isEnd() && !stands(separator, at)) {
                if (stands(quote, at)) {
                    throw Refused.line(name, "a quote is within a value that does not begin with one");
                }
                at++;
            }
            if (isNull(value, first, at)) {
                return null;
            }
            return UTF8String.fromBytes(value, first, at - first);
        }
    }
}
