package rivermouth.json;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.math.BigDecimal;
import java.util.Locale;
import java.util.Map;

import com.fasterxml.jackson.core.Base64Variants;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.ObjectMapper;

import rivermouth.types.Limits;

/** A part of a schema, as far as it is asked for, and what it says of values. */
final class SchemaNode {
    static final SchemaNode ANY = new SchemaNode();
    /** Says of all parts of a document that Spark's own parser would read them. */
    static final SchemaNode OF_SPARK = new SchemaNode();
    private static final ObjectMapper MAPPER = new ObjectMapper();
    /** Before the point, where Delta widens a bigint to a decimal. */
    private static final int BIGINT_DIGITS = 20;

    /** Of an object: its declared fields. */
    public Map<String, SchemaNode> fields;
    /** Of an object: whether other fields are reported. */
    public boolean others;
    /** Of an object: whether other fields are reported, one by one, by their names in lower case. */
    public Map<String, Boolean> named = Map.of();
    /** Of an object: whether of other fields only those are reported that have a value in them. */
    public boolean evolves;
    /** Of an object: the same of other fields one by one, by their names in lower case. */
    public Map<String, Boolean> evolving = Map.of();
    /** Of a whole document: whether a field within a value is taken out alone, where it is none of its type. */
    public boolean nested;
    /** Of an array: its elements. */
    public SchemaNode items;
    /** Of an object whose fields are not declared by name: what is in them. */
    public SchemaNode values;
    /** The type as which Spark's parser reads it; null where that takes any value. */
    public String kind;
    /** The type of a number. */
    public String number;
    public int precision;
    public int scale;
    /** Of a column that shall keep all that is said: {@code double} or {@code timestamp}; null of all others. */
    public String exact;

    /** Whether a value is sure only where Spark's own parser reads it in the same way. */
    boolean ofSpark;

    static {
        OF_SPARK.ofSpark = true;
        OF_SPARK.items = OF_SPARK;
        OF_SPARK.values = OF_SPARK;
    }

    SchemaNode member(String name) {
        return fields == null ? values : fields.get(name);
    }

    /** What is known of a field; {@code ANY} where nothing is known. */
    static SchemaNode within(SchemaNode known, String name) {
        SchemaNode found = known.member(name);
        return found == null ? ANY : found;
    }

    boolean reports(String name) {
        return fields != null && (named.isEmpty() ? others : named.getOrDefault(name.toLowerCase(Locale.ROOT), others));
    }

    /** Whether a field of that name is reported only if it has a value in it: not of null, {@code {}} or {@code []}. */
    boolean waitsForValue(String name) {
        return evolving.isEmpty() ? evolves : evolving.getOrDefault(name.toLowerCase(Locale.ROOT), evolves);
    }

    boolean isLooked() {
        return fields != null || items != null || values != null;
    }

    static SchemaNode of(String tree) {
        try {
            return MAPPER.readValue(tree, SchemaNode.class);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Whether the value that begins here is one that Spark's parser takes for its type; reads it to its end. */
    boolean fits(JsonParser in) throws IOException {
        JsonToken token = in.currentToken();
        boolean any = kind == null || token == JsonToken.VALUE_NULL;
        if (!any && token == JsonToken.START_OBJECT && (kind.equals("struct") || kind.equals("map"))) {
            return fieldsFit(in);
        }
        if (!any && token == JsonToken.START_ARRAY && kind.equals("array")) {
            return itemsFit(in);
        }
        boolean fits = any || isOfKind(in) && isKept(in);
        in.skipChildren();
        return fits;
    }

    /** Whether a column keeps the value that begins here to its last digit, if it shall; of other kinds nothing is said. */
    private boolean isKept(JsonParser in) throws IOException {
        if (exact == null) {
            return true;
        }
        JsonToken token = in.currentToken();
        return exact.equals("double") ? !token.isNumeric() || Exact.isDouble(in.getText())
                : token != JsonToken.VALUE_STRING || Exact.isMicros(in.getText());
    }

    /** Whether all of the value that begins here is kept to its last digit where it shall be; reads it to its end. */
    boolean keeps(JsonParser in) throws IOException {
        boolean kept = true;
        if (in.currentToken() == JsonToken.START_OBJECT && isLooked()) {
            while (in.nextToken() == JsonToken.FIELD_NAME) {
                SchemaNode child = member(in.currentName());
                in.nextToken();
                kept &= (child == null ? ANY : child).keeps(in);
            }
        } else if (in.currentToken() == JsonToken.START_ARRAY && items != null) {
            while (in.nextToken() != JsonToken.END_ARRAY) {
                kept &= items.keeps(in);
            }
        } else {
            kept = isKept(in);
            in.skipChildren();
            in.finishToken();
        }
        return kept;
    }

    private boolean isOfKind(JsonParser in) throws IOException {
        JsonToken token = in.currentToken();
        switch (kind) {
            case "boolean":
                return token.isBoolean();
            case "smallint":
                return token == JsonToken.VALUE_NUMBER_INT && fitsInto(in, Short.MAX_VALUE);
            case "int":
                return token == JsonToken.VALUE_NUMBER_INT && fitsInto(in, Integer.MAX_VALUE);
            case "bigint":
                return token == JsonToken.VALUE_NUMBER_INT && fitsInto(in, Long.MAX_VALUE);
            case "double":
                return token.isNumeric();
            case "string":
                return true;
            case "variant":
                return token.isScalarValue();
            case "binary":
                return token == JsonToken.VALUE_STRING && isBase64(in.getText());
            case "struct":
            case "map":
            case "array":
                return false;
            default:
                throw new IllegalStateException(kind);
        }
    }

    private boolean fieldsFit(JsonParser in) throws IOException {
        boolean fit = true;
        while (in.nextToken() == JsonToken.FIELD_NAME) {
            SchemaNode child = member(in.currentName());
            in.nextToken();
            fit &= (child == null ? ANY : child).fits(in);
        }
        return fit;
    }

    private boolean itemsFit(JsonParser in) throws IOException {
        boolean fit = true;
        while (in.nextToken() != JsonToken.END_ARRAY) {
            fit &= (items == null ? ANY : items).fits(in);
        }
        return fit;
    }

    private static boolean isBase64(String text) {
        try {
            Base64Variants.getDefaultVariant().decode(text);
            return true;
        } catch (IllegalArgumentException none) {
            return false;
        }
    }

    /** Whether a number in the value that begins here needs a wider type, and may get one; reads to its end. */
    boolean wider(JsonParser in) throws IOException {
        boolean found = false;
        switch (in.currentToken()) {
            case START_OBJECT:
                while (in.nextToken() == JsonToken.FIELD_NAME) {
                    SchemaNode child = member(in.currentName());
                    in.nextToken();
                    found |= (child == null ? ANY : child).wider(in);
                }
                return found;
            case START_ARRAY:
                while (in.nextToken() != JsonToken.END_ARRAY) {
                    found |= (items == null ? ANY : items).wider(in);
                }
                return found;
            case VALUE_NUMBER_INT:
            case VALUE_NUMBER_FLOAT:
                return number != null && !holds(in) && mayWiden(in);
            default:
                in.finishToken();
                return false;
        }
    }

    private boolean holds(JsonParser in) throws IOException {
        boolean whole = in.currentToken() == JsonToken.VALUE_NUMBER_INT;
        switch (number) {
            case "tinyint":
                return whole && fitsInto(in, Byte.MAX_VALUE);
            case "smallint":
                return whole && fitsInto(in, Short.MAX_VALUE);
            case "int":
                return whole && fitsInto(in, Integer.MAX_VALUE);
            case "bigint":
                return whole && fitsInto(in, Long.MAX_VALUE);
            case "float":
                return Limits.isInFloatRange(Double.parseDouble(in.getText()));
            case "decimal":
                BigDecimal value = numberOf(in);
                return value != null && Limits.isDecimal(value, precision, scale);
            default:
                throw new IllegalStateException(number);
        }
    }

    /** Whether Delta may have a wider type for a number that its own does not hold. */
    private boolean mayWiden(JsonParser in) throws IOException {
        boolean fraction = in.currentToken() == JsonToken.VALUE_NUMBER_FLOAT;
        switch (number) {
            case "float":
                return Double.isFinite(Double.parseDouble(in.getText()));
            case "decimal":
                return isDecimal(in, precision - scale, scale);
            case "bigint":
                return isDecimal(in, BIGINT_DIGITS, 0);
            default:
                return fraction || isDecimal(in, 0, 0);
        }
    }

    /** Whether a decimal with at least this many digits before and behind the point takes a number. */
    private static boolean isDecimal(JsonParser in, int before, int behind) throws IOException {
        BigDecimal value = numberOf(in);
        return value != null && Math.max(before, digitsBefore(value)) + Math.max(behind, value.scale()) <= Limits.MAX_DIGITS;
    }

    /** The number; null where its exponent is beyond what Java can count with. */
    private static BigDecimal numberOf(JsonParser in) throws IOException {
        try {
            return new BigDecimal(in.getText()).stripTrailingZeros();
        } catch (NumberFormatException | ArithmeticException beyond) {
            return null;
        }
    }

    private static long digitsBefore(BigDecimal value) {
        return (long) value.precision() - value.scale();
    }

    private static boolean fitsInto(JsonParser in, long greatest) throws IOException {
        boolean isLong = in.getNumberType() != JsonParser.NumberType.BIG_INTEGER;
        return isLong && Limits.isWhole(in.getLongValue(), greatest);
    }
}
