package rivermouth.values;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.List;
import java.util.Map;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.types.UTF8String;

import rivermouth.types.Limits;

/** Values without parts as a declared type has them: nothing is cast, rounded or cut off. */
@FunctionalInterface
interface Leaf {
    int NAME_LENGTH = 100;
    long MICRO_NANOS = 1_000;
    long SECOND_MICROS = 1_000_000;

    /** The plain value in Spark's own form. */
    Object of(Object plain);

    /**
     * That of a declared type; null if there is none.
     *
     * @param truncatesTimes whether what is less than a microsecond is cut off of times; else they are refused
     */
    static Leaf of(DataType declared, boolean truncatesTimes) {
        if (declared instanceof DecimalType) {
            DecimalType type = (DecimalType) declared;
            return value -> decimal(value, type.precision(), type.scale());
        }
        return Map.<DataType, Leaf>ofEntries(
                        Map.entry(DataTypes.BooleanType, Leaf::bool),
                        Map.entry(DataTypes.ByteType, value -> (byte) whole(value, DataTypes.ByteType)),
                        Map.entry(DataTypes.ShortType, value -> (short) whole(value, DataTypes.ShortType)),
                        Map.entry(DataTypes.IntegerType, value -> (int) whole(value, DataTypes.IntegerType)),
                        Map.entry(DataTypes.LongType, value -> whole(value, DataTypes.LongType)),
                        Map.entry(DataTypes.FloatType, Leaf::single),
                        Map.entry(DataTypes.DoubleType, Leaf::real),
                        Map.entry(DataTypes.StringType, Leaf::text),
                        Map.entry(DataTypes.BinaryType, Leaf::bytes),
                        Map.entry(DataTypes.DateType, Leaf::day),
                        Map.entry(DataTypes.TimestampType, value -> instant(value, truncatesTimes)),
                        Map.entry(DataTypes.TimestampNTZType, value -> local(value, truncatesTimes)))
                .get(declared);
    }

    /** What a plain value is, in words; nothing of itself. */
    static String kind(Object value) {
        if (value instanceof Boolean) {
            return "a boolean";
        }
        if (isWhole(value)) {
            return "a whole number";
        }
        if (value instanceof Float || value instanceof Double) {
            return "a floating-point number";
        }
        if (value instanceof BigDecimal) {
            return "a decimal";
        }
        if (value instanceof String || value instanceof UTF8String) {
            return "a string";
        }
        if (value instanceof byte[]) {
            return "bytes";
        }
        return value instanceof List ? "a list" : value instanceof Map ? "a map" : time(value);
    }

    private static String time(Object value) {
        if (value instanceof LocalDate) {
            return "a date";
        }
        if (value instanceof Instant) {
            return "an instant";
        }
        if (value instanceof LocalDateTime) {
            return "a time without a zone";
        }
        if (value instanceof View.Said) {
            return ((View.Said) value).words();
        }
        String name = value.getClass().getTypeName();
        return "an object of " + name.substring(0, Math.min(name.length(), NAME_LENGTH));
    }

    private static boolean isWhole(Object value) {
        return value instanceof Integer
                || value instanceof Long
                || value instanceof Short
                || value instanceof Byte
                || value instanceof BigInteger;
    }

    private static Object bool(Object value) {
        if (!(value instanceof Boolean)) {
            throw new Unfit(kind(value));
        }
        return value;
    }

    private static long whole(Object value, DataType declared) {
        if (!isWhole(value)) {
            throw new Unfit(kind(value));
        }
        boolean wide = value instanceof BigInteger && ((BigInteger) value).bitLength() >= Long.SIZE;
        long found = ((Number) value).longValue();
        if (wide || !Limits.isWhole(found, Limits.greatest(declared))) {
            throw new Unfit("a value beyond its range");
        }
        return found;
    }

    private static double real(Object value) {
        if (value instanceof Double || value instanceof Float) {
            return ((Number) value).doubleValue();
        }
        if (!isWhole(value)) {
            throw new Unfit(kind(value));
        }
        double found = ((Number) value).doubleValue();
        if (Double.isInfinite(found)) {
            throw new Unfit("a value beyond its range");
        }
        BigDecimal exact = value instanceof BigInteger
                ? new BigDecimal((BigInteger) value)
                : BigDecimal.valueOf(((Number) value).longValue());
        if (!Limits.isExactly(found, exact)) {
            throw new Unfit("a whole number that it would round");
        }
        return found;
    }

    private static float single(Object value) {
        double found = real(value);
        if (!Limits.isFloat(found)) {
            throw new Unfit("a number that a float would round: declare double");
        }
        return (float) found;
    }

    private static Object decimal(Object value, int precision, int scale) {
        BigDecimal found;
        if (value instanceof BigDecimal) {
            found = (BigDecimal) value;
        } else if (value instanceof BigInteger) {
            found = new BigDecimal((BigInteger) value);
        } else if (isWhole(value)) {
            found = BigDecimal.valueOf(((Number) value).longValue());
        } else if (value instanceof Float || value instanceof Double) {
            throw new Unfit("a floating-point number, which is no exact one");
        } else {
            throw new Unfit(kind(value));
        }
        Decimal fitting = Limits.decimal(found, precision, scale);
        if (fitting == null) {
            throw new Unfit("a number with more digits than that, before or after the point");
        }
        return fitting;
    }

    private static Object text(Object value) {
        if (value instanceof UTF8String) {
            return value;
        }
        if (!(value instanceof String)) {
            throw new Unfit(kind(value));
        }
        String text = (String) value;
        if (!Limits.isText(text)) {
            throw new Unfit("a string with half a character (a surrogate without its pair)");
        }
        return UTF8String.fromString(text);
    }

    private static Object bytes(Object value) {
        if (!(value instanceof byte[])) {
            throw new Unfit(kind(value));
        }
        return ((byte[]) value).clone();
    }

    private static Object day(Object value) {
        if (!(value instanceof LocalDate)) {
            throw new Unfit(kind(value));
        }
        long day = ((LocalDate) value).toEpochDay();
        checkBounds(Limits.isDay(day));
        return (int) day;
    }

    private static Object instant(Object value, boolean truncates) {
        if (!(value instanceof Instant)) {
            throw new Unfit(kind(value));
        }
        return micros((Instant) value, truncates);
    }

    private static Object local(Object value, boolean truncates) {
        if (!(value instanceof LocalDateTime)) {
            throw new Unfit(kind(value));
        }
        return micros(((LocalDateTime) value).toInstant(ZoneOffset.UTC), truncates);
    }

    private static long micros(Instant at, boolean truncates) {
        long second = at.getEpochSecond();
        // Seconds first: not every instant has microseconds that a long holds.
        checkBounds(second >= Limits.FIRST_MICROS / SECOND_MICROS && second <= Limits.LAST_MICROS / SECOND_MICROS);
        if (!truncates && at.getNano() % MICRO_NANOS != 0) {
            throw new Unfit("a time with nanoseconds, which timestamp_precision: truncate cuts off");
        }
        // Nanoseconds count from the second on: before 1970 too they are cut toward the past.
        return second * SECOND_MICROS + at.getNano() / MICRO_NANOS;
    }

    private static void checkBounds(boolean inside) {
        if (!inside) {
            throw new Unfit("a time that is not in the years 1 to 9999");
        }
    }

    /** That a value is not of the type: what it is instead, in words. */
    final class Unfit extends RuntimeException {
        private static final long serialVersionUID = 1;

        Unfit(String what) {
            super(what, null, false, false);
        }
    }
}
