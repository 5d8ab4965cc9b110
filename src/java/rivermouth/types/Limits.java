package rivermouth.types;

import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;

/**
 * Whether a value fits a column's type: the one table of rules in Spark's JVM, which all readers ask.
 *
 * <p>{@code schemas/type_limits.py} says the same in Python.
 */
public final class Limits {
    /** Days since 1970 of 0001-01-01: dates and times are of the years 1 to 9999, which all readers of a table can read. */
    public static final int FIRST_DAY = -719_162;

    /** Of 9999-12-31. */
    public static final int LAST_DAY = 2_932_896;

    private static final long DAY_MICROS = 86_400_000_000L;

    /** Microseconds since 1970 of 0001-01-01T00:00:00Z. */
    public static final long FIRST_MICROS = FIRST_DAY * DAY_MICROS;

    /** Of 9999-12-31T23:59:59.999999Z. */
    public static final long LAST_MICROS = (LAST_DAY + 1) * DAY_MICROS - 1;

    /** Digits of the widest decimal. */
    public static final int MAX_DIGITS = 38;

    /** A number of more bits fits no decimal: 38 digits have 127, and zeros at its end may be cut off. To count takes long. */
    private static final int MOST_BITS = 4096;
    private static final int LONG_DIGITS = 18;

    private Limits() {}

    // --- whole numbers ---

    /** The greatest number of a type of whole numbers; its least is one less than that number's negative. */
    public static long greatest(DataType declared) {
        if (declared.equals(DataTypes.ByteType)) {
            return Byte.MAX_VALUE;
        }
        if (declared.equals(DataTypes.ShortType)) {
            return Short.MAX_VALUE;
        }
        if (declared.equals(DataTypes.IntegerType)) {
            return Integer.MAX_VALUE;
        }
        if (declared.equals(DataTypes.LongType)) {
            return Long.MAX_VALUE;
        }
        throw new IllegalArgumentException(declared.typeName());
    }

    /** Whether a type of whole numbers that holds up to {@code greatest} holds a number. */
    public static boolean isWhole(long value, long greatest) {
        return value <= greatest && value >= -greatest - 1;
    }

    // --- decimals ---

    /** A number as a decimal of this precision and scale, if that holds it to its last digit; else null. */
    public static Decimal decimal(BigDecimal value, int precision, int scale) {
        if (!isDecimal(value, precision, scale)) {
            return null;
        }
        BigDecimal found = value.signum() == 0 ? BigDecimal.ZERO.setScale(scale) : value.setScale(scale);
        return precision <= LONG_DIGITS
                ? Decimal.createUnsafe(found.unscaledValue().longValue(), precision, scale)
                : Decimal.apply(found, precision, scale);
    }

    /** Whether a decimal of this precision and scale holds a number to its last digit, zeros at its end aside. */
    public static boolean isDecimal(BigDecimal value, int precision, int scale) {
        if (value.signum() == 0) {
            return true;
        }
        if (value.unscaledValue().bitLength() > MOST_BITS) {
            return false;
        }
        long before = (long) value.precision() - value.scale();
        if (before > precision - scale) {
            return false;
        }
        return value.scale() <= scale || value.stripTrailingZeros().scale() <= scale;
    }

    // --- floating-point numbers ---

    /** Whether the nearest float of a number is finite. */
    public static boolean isInFloatRange(double value) {
        return !Float.isInfinite((float) value);
    }

    /** Whether a float is a number to its last digit; NaN and the infinities are floats. */
    public static boolean isFloat(double value) {
        return Double.isNaN(value) || (float) value == value;
    }

    /** Whether a floating-point number is exactly a whole one. */
    public static boolean isExactly(double found, BigDecimal whole) {
        // As decimals: the nearest double of the greatest long is more than that long.
        return !Double.isInfinite(found) && new BigDecimal(found).compareTo(whole) == 0;
    }

    // --- dates and times ---

    /** Whether a number of microseconds since 1970 is within the years. */
    public static boolean isTime(long micros) {
        return micros >= FIRST_MICROS && micros <= LAST_MICROS;
    }

    /** Whether a number of days since 1970 is within the years. */
    public static boolean isDay(long day) {
        return day >= FIRST_DAY && day <= LAST_DAY;
    }

    // --- texts ---

    /** Whether a text can be written as UTF-8: no half of a character (a surrogate without its pair) is in it. */
    public static boolean isText(String text) {
        return StandardCharsets.UTF_8.newEncoder().canEncode(text);
    }
}
