package rivermouth.avro;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.util.UUID;
import java.util.function.Function;
import java.util.regex.Pattern;

import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.UTF8String;

import rivermouth.types.Limits;

/** Values without parts: numbers, texts, bytes, and what their logical types make of them. Nothing is rounded. */
final class Leaves {
    private static final String NOT_EXACT = "a number is not exactly one of the column's type";
    private static final String TOO_MANY_DIGITS = "a decimal has more digits than the column";

    private static final long MILLI_MICROS = 1_000;
    private static final Pattern UUID_TEXT = Pattern.compile("\\p{XDigit}{8}(-\\p{XDigit}{4}){3}-\\p{XDigit}{12}");

    private Leaves() {}

    /** The reader of a value that the writer has as one type, and the table by another that it may be promoted to. */
    static Reader of(Schema writer, Schema reader) {
        if (!agree(writer, reader)) {
            String message = "the writer's type " + named(writer) + " is not " + named(reader);
            return in -> {
                throw Refused.mismatch(message);
            };
        }
        switch (reader.getType()) {
            case NULL:
                return in -> null;
            case BOOLEAN:
                return Input::readBoolean;
            case INT:
                return Columns.logical(reader).equals("date") ? Leaves::day : Input::readInt;
            case LONG:
                return longs(writer, reader);
            case FLOAT:
                return floats(writer);
            case DOUBLE:
                return doubles(writer);
            case STRING:
                return Columns.logical(reader).equals("uuid") ? Leaves::uuidText : Input::readText;
            case BYTES:
                return bytes(Input::readBytes, reader);
            case FIXED:
                int size = writer.getFixedSize();
                return bytes(in -> in.readFixed(size), reader);
            default:
                throw new IllegalArgumentException("no leaf: " + reader.getType());
        }
    }

    /**
     * Whether two types say the same of a number. A writer that says nothing may be read as a date or a time of the
     * table's unit; what has a scale or a unit is never read without it.
     */
    private static boolean agree(Schema writer, Schema reader) {
        if (isDecimal(writer) || isDecimal(reader)) {
            return isDecimal(writer) && isDecimal(reader) && scale(writer) == scale(reader);
        }
        String one = Columns.logical(writer);
        String other = Columns.logical(reader);
        if (one.equals(other) || isTimestamp(one) && family(one).equals(family(other))) {
            return true;
        }
        boolean scaled = one.equals("big-decimal") || other.equals("big-decimal");
        return !scaled && (one.isEmpty() || other.isEmpty() && !isTime(one));
    }

    private static boolean isDecimal(Schema schema) {
        return schema.getLogicalType() instanceof LogicalTypes.Decimal;
    }

    private static int scale(Schema schema) {
        return ((LogicalTypes.Decimal) schema.getLogicalType()).getScale();
    }

    /** A type as a reader of messages knows it. */
    static String named(Schema schema) {
        if (isDecimal(schema)) {
            return "decimal(" + ((LogicalTypes.Decimal) schema.getLogicalType()).getPrecision() + "," + scale(schema) + ")";
        }
        String logical = Columns.logical(schema);
        return logical.isEmpty() ? schema.getType().getName() : logical;
    }

    /** Whether a logical type gives a number a unit of time. */
    private static boolean isTime(String logical) {
        return logical.equals("date") || logical.startsWith("time") || logical.startsWith("local-timestamp-");
    }

    private static boolean isTimestamp(String logical) {
        return logical.endsWith("timestamp-millis") || logical.endsWith("timestamp-micros");
    }

    private static String family(String logical) {
        return isTimestamp(logical) ? logical.substring(0, logical.lastIndexOf('-')) : logical;
    }

    private static Object day(Input in) {
        int day = in.readInt();
        if (!Limits.isDay(day)) {
            throw Refused.unfit("a date is not in the years 1 to 9999");
        }
        return day;
    }

    private static Reader longs(Schema writer, Schema reader) {
        boolean ints = writer.getType() == Schema.Type.INT;
        if (!isTimestamp(Columns.logical(reader))) {
            return ints ? in -> (long) in.readInt() : Input::readLong;
        }
        // The writer knows the unit of its numbers, and the column has microseconds whichever it is.
        String unit = isTimestamp(Columns.logical(writer)) ? Columns.logical(writer) : Columns.logical(reader);
        long factor = unit.endsWith("millis") ? MILLI_MICROS : 1;
        long first = Limits.FIRST_MICROS / factor;
        long last = Limits.LAST_MICROS / factor;
        return in -> {
            long sent = ints ? in.readInt() : in.readLong();
            if (sent < first || sent > last) {
                throw Refused.unfit("a timestamp is not in the years 1 to 9999");
            }
            return sent * factor;
        };
    }

    private static Reader floats(Schema writer) {
        switch (writer.getType()) {
            case INT:
            case LONG:
                boolean ints = writer.getType() == Schema.Type.INT;
                return in -> {
                    long sent = ints ? in.readInt() : in.readLong();
                    float found = sent;
                    if (!Limits.isExactly(found, BigDecimal.valueOf(sent))) {
                        throw Refused.unfit(NOT_EXACT);
                    }
                    return found;
                };
            default:
                return Input::readFloat;
        }
    }

    private static Reader doubles(Schema writer) {
        switch (writer.getType()) {
            case INT:
                return in -> (double) in.readInt();
            case LONG:
                return in -> {
                    long sent = in.readLong();
                    double found = sent;
                    if (!Limits.isExactly(found, BigDecimal.valueOf(sent))) {
                        throw Refused.unfit(NOT_EXACT);
                    }
                    return found;
                };
            case FLOAT:
                return in -> (double) in.readFloat();
            default:
                return Input::readDouble;
        }
    }

    private static Reader bytes(Function<Input, byte[]> read, Schema reader) {
        if (reader.getLogicalType() instanceof LogicalTypes.Decimal) {
            LogicalTypes.Decimal declared = (LogicalTypes.Decimal) reader.getLogicalType();
            int precision = declared.getPrecision();
            int scale = declared.getScale();
            return in -> decimal(read.apply(in), precision, scale);
        }
        if (Columns.logical(reader).equals("uuid")) {
            return in -> uuid(read.apply(in));
        }
        return read::apply;
    }

    private static Decimal decimal(byte[] sent, int precision, int scale) {
        if (sent.length == 0) {
            throw Refused.malformed("a decimal has no bytes");
        }
        return decimal(new BigDecimal(new BigInteger(sent), scale), precision, scale);
    }

    /** The reader of a decimal or a whole number of the writer as a decimal of more digits; null if it is neither. */
    static Reader decimals(Schema writer, int precision, int scale) {
        boolean isNumber = Columns.logical(writer).isEmpty();
        switch (writer.getType()) {
            case INT:
                return isNumber ? in -> decimal(BigDecimal.valueOf(in.readInt()), precision, scale) : null;
            case LONG:
                return isNumber ? in -> decimal(BigDecimal.valueOf(in.readLong()), precision, scale) : null;
            default:
                if (!isDecimal(writer) || scale(writer) > scale) {
                    return null;
                }
                Reader sent = of(writer, writer);
                return in -> decimal(((Decimal) sent.read(in)).toJavaBigDecimal(), precision, scale);
        }
    }

    private static Decimal decimal(BigDecimal sent, int precision, int scale) {
        Decimal found = Limits.decimal(sent, precision, scale);
        if (found == null) {
            throw Refused.unfit(TOO_MANY_DIGITS);
        }
        return found;
    }

    private static UTF8String uuidText(Input in) {
        UTF8String sent = in.readText();
        if (!UUID_TEXT.matcher(sent.toString()).matches()) {
            throw Refused.unfit("a uuid is not written as one");
        }
        return sent;
    }

    private static UTF8String uuid(byte[] sent) {
        ByteBuffer halves = ByteBuffer.wrap(sent);
        return UTF8String.fromString(new UUID(halves.getLong(), halves.getLong()).toString());
    }
}
