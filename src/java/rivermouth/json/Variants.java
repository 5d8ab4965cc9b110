package rivermouth.json;

import java.io.IOException;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.io.JsonStringEncoder;

import org.apache.spark.types.variant.Variant;
import org.apache.spark.types.variant.VariantBuilder;
import org.apache.spark.types.variant.VariantSizeLimitException;
import org.apache.spark.types.variant.VariantUtil;
import org.apache.spark.unsafe.types.VariantVal;

/**
 * Reads values of any shape, as Spark's VARIANT has them: numbers as decimals digit by digit, those with an exponent or more
 * digits as doubles, and of a key that is there twice the last value.
 */
final class Variants implements Reader {
    static final Variants READER = new Variants();
    /** Not every reader of tables takes longer ones. */
    private static final int MAX_BYTES = 1 << 24;

    private Variants() {}

    @Override
    public Object read(Document in) {
        try {
            VariantBuilder out = new VariantBuilder(true);
            append(in, out, 0);
            Variant found = out.result();
            checkSize(found);
            return new VariantVal(found.getValue(), found.getMetadata());
        } catch (IOException | VariantSizeLimitException refused) {
            throw NotCertain.IT_IS;
        }
    }

    private static void append(Document in, VariantBuilder out, int depth) throws IOException {
        if (depth > Document.MAX_DEPTH) {
            throw NotCertain.IT_IS;
        }
        switch (in.here()) {
            case '"':
                out.appendString(in.text().toString());
                break;
            case '{':
                appendObject(in, out, depth);
                break;
            case '[':
                appendArray(in, out, depth);
                break;
            case 't':
            case 'f':
                out.appendBoolean(in.bool());
                break;
            case 'n':
                in.nothing();
                out.appendNull();
                break;
            default:
                appendNumber(in, out);
        }
    }

    private static void appendObject(Document in, VariantBuilder out, int depth) throws IOException {
        int start = out.getWritePos();
        ArrayList<VariantBuilder.FieldEntry> fields = new ArrayList<>();
        in.take('{');
        in.blanks();
        boolean more = !in.took('}');
        while (more) {
            String name = in.name().toString();
            in.colon();
            fields.add(new VariantBuilder.FieldEntry(name, out.addKey(name), out.getWritePos() - start));
            append(in, out, depth + 1);
            more = in.more('}');
        }
        out.finishWritingObject(start, fields);
    }

    private static void appendArray(Document in, VariantBuilder out, int depth) throws IOException {
        int start = out.getWritePos();
        ArrayList<Integer> offsets = new ArrayList<>();
        in.take('[');
        in.blanks();
        boolean more = !in.took(']');
        while (more) {
            offsets.add(out.getWritePos() - start);
            append(in, out, depth + 1);
            more = in.more(']');
        }
        out.finishWritingArray(start, offsets);
    }

    private static void appendNumber(Document in, VariantBuilder out) throws IOException {
        int begin = in.at;
        in.number();
        if (in.isLong()) {
            out.appendLong(in.wholeNumber());
            return;
        }
        String text = new String(in.bytes, begin, in.at - begin, StandardCharsets.ISO_8859_1);
        BigDecimal exact = in.exponent ? null : new BigDecimal(text);
        if (exact != null && exact.precision() <= VariantUtil.MAX_DECIMAL16_PRECISION
                && exact.scale() <= VariantUtil.MAX_DECIMAL16_PRECISION) {
            out.appendDecimal(exact);
        } else {
            checkNumber(text);
            out.appendDouble(Double.parseDouble(text));
        }
    }

    /** Whether a number becomes another one in a decimal that is made of a variant. */
    static boolean isRounded(String text) {
        if (text.indexOf('e') < 0 && text.indexOf('E') < 0) {
            BigDecimal exact = new BigDecimal(text);
            if (exact.precision() <= VariantUtil.MAX_DECIMAL16_PRECISION
                    && exact.scale() <= VariantUtil.MAX_DECIMAL16_PRECISION) {
                return false;
            }
        }
        // Decimals are made of the text of a double, and not of the double itself.
        return !Exact.isShortest(text);
    }

    /**
     * JSON in UTF-8, as text. Spark's {@code parse_json} makes of the text what {@code read} makes of the JSON.
     *
     * @throws IOException no VARIANT holds it
     */
    static String text(byte[] value, int begin, int end) throws IOException {
        try (JsonParser in = TextPreserver.FACTORY.createParser(value, begin, end - begin)) {
            in.nextToken();
            StringBuilder out = new StringBuilder(end - begin);
            write(tree(in), out);
            String text = out.toString();
            checkSize(VariantBuilder.parseJson(text, false));
            return text;
        } catch (VariantSizeLimitException large) {
            throw new IOException(large);
        }
    }

    /** A map, a list, or the text of a value that is neither. */
    private static Object tree(JsonParser in) throws IOException {
        JsonToken token = in.currentToken();
        if (token == JsonToken.START_OBJECT) {
            Map<String, Object> members = new LinkedHashMap<>();
            while (in.nextToken() == JsonToken.FIELD_NAME) {
                TextPreserver.check(in);
                String name = in.currentName();
                in.nextToken();
                members.put(name, tree(in));
            }
            return members;
        }
        if (token == JsonToken.START_ARRAY) {
            List<Object> items = new ArrayList<>();
            while (in.nextToken() != JsonToken.END_ARRAY) {
                items.add(tree(in));
            }
            return items;
        }
        if (token.isNumeric()) {
            checkNumber(in.getText());
        }
        TextPreserver.check(in);
        return token == JsonToken.VALUE_STRING ? quoted(in.getText()) : in.getText();
    }

    private static void write(Object part, StringBuilder out) {
        if (part instanceof Map) {
            char before = '{';
            for (Map.Entry<?, ?> each : ((Map<?, ?>) part).entrySet()) {
                out.append(before).append(quoted((String) each.getKey())).append(':');
                write(each.getValue(), out);
                before = ',';
            }
            out.append(before == '{' ? "{}" : "}");
        } else if (part instanceof List) {
            char before = '[';
            for (Object each : (List<?>) part) {
                out.append(before);
                write(each, out);
                before = ',';
            }
            out.append(before == '[' ? "[]" : "]");
        } else {
            out.append(part);
        }
    }

    private static String quoted(String text) {
        return '"' + new String(JsonStringEncoder.getInstance().quoteAsString(text)) + '"';
    }

    private static void checkNumber(String text) throws IOException {
        if (Double.isInfinite(Double.parseDouble(text))) {
            throw new IOException();
        }
    }

    private static void checkSize(Variant found) throws IOException {
        if (found.getValue().length > MAX_BYTES || found.getMetadata().length > MAX_BYTES) {
            throw new IOException();
        }
    }
}
