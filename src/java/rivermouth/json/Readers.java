package rivermouth.json;

import java.io.IOException;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

import com.fasterxml.jackson.core.io.NumberInput;

import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.UTF8String;

import rivermouth.types.Limits;

/** Readers of values by the types that columns declare: of each type, what nobody can doubt that it fits. */
final class Readers {
    /** Every decimal of this many digits is the shortest one for a double, so it survives being read as one. */
    private static final int EXACT_IN_DOUBLE = Exact.DIGITS_OF_DOUBLE;
    private static final int LONG_DIGITS = 18;
    /** A double is exactly these powers of ten, so that a number of 15 digits divided by one is rounded once. */
    private static final double[] POWERS = new double[23];

    static {
        POWERS[0] = 1;
        for (int place = 1; place < POWERS.length; place++) {
            POWERS[place] = POWERS[place - 1] * 10;
        }
    }

    private Readers() {}

    /**
     * The reader of a type.
     *
     * @param utc whether times without an offset are of UTC; else they are unsure
     * @param exact what shall be kept to its last digit; what would not be is unsure
     * @throws IllegalArgumentException there is none
     */
    static Reader of(DataType declared, boolean utc, SchemaNode exact) {
        if (declared instanceof StructType) {
            return new Members((StructType) declared, utc, exact, false);
        }
        if (declared instanceof ArrayType) {
            SchemaNode items = exact.items == null ? SchemaNode.ANY : exact.items;
            Reader each = of(((ArrayType) declared).elementType(), utc, items);
            return items(each, ((ArrayType) declared).containsNull());
        }
        if (declared instanceof MapType) {
            SchemaNode values = exact.values == null ? SchemaNode.ANY : exact.values;
            Reader each = of(((MapType) declared).valueType(), utc, values);
            return entries(each, ((MapType) declared).valueContainsNull());
        }
        if (declared instanceof DecimalType) {
            return decimals((DecimalType) declared);
        }
        switch (declared.typeName()) {
            case "boolean":
                return Document::bool;
            case "byte":
                return in -> (byte) integer(in, Byte.MAX_VALUE);
            case "short":
                return in -> (short) integer(in, Short.MAX_VALUE);
            case "integer":
                return in -> (int) integer(in, Integer.MAX_VALUE);
            case "long":
                return in -> integer(in, Long.MAX_VALUE);
            case "float":
                return Readers::single;
            case "double":
                return exact.exact == null ? Readers::real : Readers::exactReal;
            case "string":
                return exact.ofSpark ? Document::text : Readers::text;
            case "binary":
                return Readers::binary;
            case "variant":
                return Variants.READER;
            case "date":
                return in -> Times.date(in.bytes, in.plainString(), in.at - 1);
            case "timestamp":
                return exact.ofSpark
                        ? in -> Times.timeOfSpark(in.bytes, in.plainString(), in.at - 1, true, utc)
                        : in -> Times.time(in.bytes, in.plainString(), in.at - 1, true, utc, exact.exact != null);
            case "timestamp_ntz":
                return exact.ofSpark
                        ? in -> Times.timeOfSpark(in.bytes, in.plainString(), in.at - 1, false, true)
                        : in -> Times.time(in.bytes, in.plainString(), in.at - 1, false, true, exact.exact != null);
            default:
                throw new IllegalArgumentException(declared.typeName());
        }
    }

    private static Reader items(Reader each, boolean mayBeNull) {
        return in -> {
            List<Object> found = new ArrayList<>();
            in.take('[');
            in.blanks();
            boolean more = !in.took(']');
            while (more) {
                found.add(item(in, each, mayBeNull));
                more = in.more(']');
            }
            return new GenericArrayData(found.toArray());
        };
    }

    private static Reader entries(Reader each, boolean mayBeNull) {
        return in -> {
            Set<Object> seen = new HashSet<>();
            List<Object> keys = new ArrayList<>();
            List<Object> values = new ArrayList<>();
            in.take('{');
            in.blanks();
            boolean more = !in.took('}');
            while (more) {
                UTF8String key = in.name();
                if (!seen.add(key)) {
                    throw NotCertain.IT_IS;
                }
                in.colon();
                keys.add(key);
                values.add(item(in, each, mayBeNull));
                more = in.more('}');
            }
            return new ArrayBasedMapData(new GenericArrayData(keys.toArray()), new GenericArrayData(values.toArray()));
        };
    }

    private static Object item(Document in, Reader each, boolean mayBeNull) {
        if (!in.tookNull()) {
            return each.read(in);
        }
        if (!mayBeNull) {
            throw NotCertain.IT_IS;
        }
        return null;
    }

    private static long integer(Document in, long greatest) {
        in.number();
        long found = in.wholeNumber();
        if (!Limits.isWhole(found, greatest)) {
            throw NotCertain.IT_IS;
        }
        return found;
    }

    private static Object real(Document in) {
        int begin = in.at;
        in.number();
        if (in.whole) {
            return (double) in.wholeNumber();
        }
        if (in.length <= EXACT_IN_DOUBLE && !in.exponent) {
            double found = in.digits / POWERS[in.scale];
            return in.negative ? -found : found;
        }
        // Java's own takes several times as long for 17 digits.
        return finite(NumberInput.parseDouble(ascii(in, begin, in.at), true));
    }

    private static Object exactReal(Document in) {
        int begin = in.at;
        double found = (Double) real(in);
        boolean few = in.length <= Exact.DIGITS_OF_DOUBLE && !in.exponent;
        if (few || found != 0 && !in.exponent && in.length <= LONG_DIGITS && Exact.isDouble(in.digits, found)) {
            return found;
        }
        if (!Exact.isDouble(ascii(in, begin, in.at), found)) {
            throw NotCertain.IT_IS;
        }
        return found;
    }

    private static Object single(Document in) {
        int begin = in.at;
        double sent = (Double) real(in);
        float found = (float) sent;
        // Where rounding twice and once differ, Spark's parser decides.
        if (found != Float.parseFloat(ascii(in, begin, in.at)) || !Limits.isInFloatRange(sent)) {
            throw NotCertain.IT_IS;
        }
        return found;
    }

    private static double finite(double found) {
        if (Double.isInfinite(found)) {
            throw NotCertain.IT_IS;
        }
        return found;
    }

    private static Reader decimals(DecimalType declared) {
        int scale = declared.scale();
        int precision = declared.precision();
        return in -> {
            boolean quoted = in.took('"');
            in.number();
            if (quoted) {
                in.take('"');
            }
            boolean fits = in.length - in.scale <= Math.max(precision - scale, 1);
            if (in.exponent || !fits || in.length > LONG_DIGITS || !in.shorten(scale)) {
                throw NotCertain.IT_IS;
            }
            long sent = in.negative ? -in.digits : in.digits;
            if (precision <= LONG_DIGITS) {
                long unscaled = sent * (long) POWERS[scale - in.scale];
                if (Math.abs(unscaled) >= (long) POWERS[precision]) {
                    throw NotCertain.IT_IS;
                }
                return Decimal.createUnsafe(unscaled, precision, scale);
            }
            Decimal found = Limits.decimal(BigDecimal.valueOf(sent, in.scale), precision, scale);
            if (found == null) {
                throw NotCertain.IT_IS;
            }
            return found;
        };
    }

    private static Object text(Document in) {
        int begin = in.at;
        switch (in.here()) {
            case '"':
                return in.text();
            case 't':
            case 'f':
                in.bool();
                break;
            case '{':
            case '[':
                in.skip();
                return kept(in, begin);
            default:
                in.number();
        }
        return UTF8String.fromBytes(in.bytes, begin, in.at - begin);
    }

    /** A value that is no string, as its text. */
    private static Object kept(Document in, int begin) {
        try {
            return UTF8String.fromBytes(TextPreserver.text(in.bytes, begin, in.at));
        } catch (IOException refused) {
            throw NotCertain.IT_IS;
        }
    }

    private static Object binary(Document in) {
        int begin = in.plainString();
        String sent = ascii(in, begin, in.at - 1);
        try {
            byte[] found = Base64.getDecoder().decode(sent);
            if (Base64.getEncoder().encodeToString(found).equals(sent)) {
                return found;
            }
        } catch (IllegalArgumentException none) {
            throw NotCertain.IT_IS;
        }
        throw NotCertain.IT_IS;
    }

    private static String ascii(Document in, int begin, int end) {
        return new String(in.bytes, begin, end - begin, StandardCharsets.ISO_8859_1);
    }
}
