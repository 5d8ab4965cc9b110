package rivermouth.values;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.DateTimeException;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.Base64;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegralType;
import org.apache.spark.sql.types.StringType;

/** Values that a text says, for types that are not text. Each is null where the text does not say one. */
final class Texts {
    private static final Pattern DECIMAL = Pattern.compile("-?[0-9]{1,38}([.][0-9]{1,38})?");
    private static final Pattern DATE = Pattern.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}");
    private static final Pattern LOCAL = Pattern.compile(DATE + "T[0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?");
    // The offset says the instant, whichever zone is named behind it.
    private static final Pattern ZONED =
            Pattern.compile("(" + LOCAL + "(?:Z|[+-][0-9]{2}:[0-9]{2}))(?:\\[[A-Za-z0-9_./+-]+\\])?");
    private static final Pattern WHOLE = Pattern.compile("[+-]?[0-9]{1,40}");
    // Those of XML Schema: https://www.w3.org/TR/xmlschema11-2/#decimal
    private static final String NUMBER = "[+-]?([0-9]{1,400}([.][0-9]{0,400})?|[.][0-9]{1,400})";
    private static final Pattern EXACT = Pattern.compile(NUMBER);
    private static final Pattern FLOATING = Pattern.compile(NUMBER + "([eE][+-]?[0-9]{1,3})?");

    private Texts() {}

    /** A decimal, date or time as ISO 8601 and programming languages write it; null for other types too. */
    static Object iso(String text, DataType declared) {
        try {
            return ofIso(text, declared);
        } catch (DateTimeException none) {
            return null;
        }
    }

    private static Object ofIso(String text, DataType declared) {
        if (declared instanceof DecimalType) {
            return DECIMAL.matcher(text).matches() ? new BigDecimal(text) : null;
        }
        if (declared.equals(DataTypes.DateType)) {
            return DATE.matcher(text).matches() ? LocalDate.parse(text) : null;
        }
        Matcher zoned = ZONED.matcher(text);
        if (declared.equals(DataTypes.TimestampType) && zoned.matches()) {
            return OffsetDateTime.parse(zoned.group(1)).toInstant();
        }
        boolean local = LOCAL.matcher(text).matches();
        if (declared.equals(DataTypes.TimestampType)) {
            return local ? LocalDateTime.parse(text).toInstant(ZoneOffset.UTC) : null;
        }
        return declared.equals(DataTypes.TimestampNTZType) && local ? LocalDateTime.parse(text) : null;
    }

    /** A value of any type, where all that is sent is text; numbers and truth values in the forms of XML Schema. */
    static Object of(String text, DataType declared) {
        if (declared instanceof StringType) {
            return text;
        }
        String bare = text.strip();
        if (declared instanceof IntegralType) {
            return WHOLE.matcher(bare).matches() ? new BigInteger(bare) : null;
        }
        if (declared instanceof DecimalType) {
            return EXACT.matcher(bare).matches() ? new BigDecimal(bare) : null;
        }
        if (declared.equals(DataTypes.DoubleType)) {
            return real(bare);
        }
        if (declared.equals(DataTypes.FloatType)) {
            return single(bare);
        }
        if (declared.equals(DataTypes.BooleanType)) {
            boolean yes = bare.equals("true") || bare.equals("1");
            return yes || bare.equals("false") || bare.equals("0") ? yes : null;
        }
        return declared.equals(DataTypes.BinaryType) ? base64(bare) : iso(bare, declared);
    }

    private static Double real(String text) {
        if (text.equals("NaN")) {
            return Double.NaN;
        }
        Double found = FLOATING.matcher(text).matches() ? Double.valueOf(text) : null;
        return found == null || found.isInfinite() ? null : found;
    }

    private static Float single(String text) {
        if (text.equals("NaN")) {
            return Float.NaN;
        }
        Float found = FLOATING.matcher(text).matches() ? Float.valueOf(text) : null;
        return found == null || found.isInfinite() ? null : found;
    }

    private static byte[] base64(String text) {
        try {
            byte[] found = Base64.getDecoder().decode(text);
            return Base64.getEncoder().encodeToString(found).equals(text) ? found : null;
        } catch (IllegalArgumentException none) {
            return null;
        }
    }
}
