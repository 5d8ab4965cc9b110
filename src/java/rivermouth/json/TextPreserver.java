package rivermouth.json;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.Serializable;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

import com.fasterxml.jackson.core.JsonEncoding;
import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonFactoryBuilder;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.io.JsonStringEncoder;

import org.apache.spark.sql.Column;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.VariantType;
import org.apache.spark.unsafe.types.UTF8String;

import rivermouth.internals.plan.Calls;

/**
 * Values of text columns that are no strings, kept as JSON text: numbers as they were sent, digit by digit, and no blanks
 * between tokens. Spark's parser would make doubles of the numbers.
 *
 * <p>Values of VARIANT columns, strings too, become such text as well, and an empty one where no VARIANT holds them. Where a
 * decimal is made of a variant, an empty object replaces a number that the variant would round.
 */
public final class TextPreserver implements Serializable {
    private static final long serialVersionUID = 1;
    /** Takes strings that are as long as those that Spark's parser takes, or longer. */
    static final JsonFactory FACTORY = new JsonFactoryBuilder()
            .disable(JsonFactory.Feature.CHARSET_DETECTION)
            .streamReadConstraints(StreamReadConstraints.builder().maxStringLength(Integer.MAX_VALUE).build())
            .build();

    private static final byte[] NO_NUMBER = "{}".getBytes(StandardCharsets.US_ASCII);

    private final String declared;
    private transient volatile Node root;

    /**
     * Of one flow.
     *
     * @param declared the schema, as JSON; its names are those in the documents
     */
    public TextPreserver(String declared) {
        this.declared = declared;
        root();
    }

    /** Of a column with documents: the same with strings in the place of such values; one that is not sound as it is. */
    public Column of(String column) {
        return Calls.of(this, "document", DataTypes.BinaryType, true, functions.col(column));
    }

    /** The text of a number, an object or an array in UTF-8. */
    static byte[] text(byte[] value, int begin, int end) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream(end - begin);
        try (JsonParser in = FACTORY.createParser(value, begin, end - begin);
                JsonGenerator generator = FACTORY.createGenerator(out, JsonEncoding.UTF8)) {
            while (in.nextToken() != null) {
                if (in.currentToken().isNumeric()) {
                    generator.writeNumber(in.getText());
                } else {
                    check(in);
                    generator.copyCurrentEvent(in);
                }
            }
        }
        return out.toByteArray();
    }

    /** Half a character would be written as a question mark. */
    static void check(JsonParser in) throws IOException {
        JsonToken token = in.currentToken();
        if (token != JsonToken.VALUE_STRING && token != JsonToken.FIELD_NAME) {
            return;
        }
        String text = in.getText();
        if (text.chars().anyMatch(each -> Character.isSurrogate((char) each))
                && !StandardCharsets.UTF_8.newEncoder().canEncode(text)) {
            throw new CharacterCodingException();
        }
    }

    /** For Spark: the document with strings in the place of such values. */
    public byte[] document(byte[] value) {
        if (value == null || root() == Node.NONE || !UTF8String.fromBytes(value).isValid()) {
            return value;
        }
        try (JsonParser in = FACTORY.createParser(value)) {
            Changed changed = new Changed(value);
            in.nextToken();
            changed.within(in, root());
            return in.nextToken() == null ? changed.whole() : value;
        } catch (IOException broken) {
            return value;
        }
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof TextPreserver && declared.equals(((TextPreserver) other).declared);
    }

    @Override
    public int hashCode() {
        return declared.hashCode();
    }

    /** Plans are printed: nothing of the schema. */
    @Override
    public String toString() {
        return "kept";
    }

    private Node root() {
        Node known = root;
        if (known == null) {
            known = Node.of(DataType.fromJson(declared));
            root = known;
        }
        return known;
    }

    /** Where in a type there are texts and variants. */
    private static final class Node {
        static final Node NONE = new Node();
        static final Node TEXT = new Node();
        static final Node VARIANT = new Node();
        static final Node DECIMAL = new Node();

        private Map<String, Node> fields;
        private Node each;

        static Node of(DataType declared) {
            Node found = new Node();
            if (declared instanceof StringType) {
                return TEXT;
            }
            if (declared instanceof VariantType) {
                return VARIANT;
            }
            if (declared instanceof DecimalType) {
                return DECIMAL;
            }
            if (declared instanceof ArrayType) {
                found.each = of(((ArrayType) declared).elementType());
                return found.each == NONE ? NONE : found;
            }
            if (declared instanceof MapType) {
                found.each = of(((MapType) declared).valueType());
                return found.each == NONE ? NONE : found;
            }
            if (!(declared instanceof StructType)) {
                return NONE;
            }
            found.fields = new HashMap<>();
            for (StructField field : ((StructType) declared).fields()) {
                Node child = of(field.dataType());
                if (child != NONE) {
                    found.fields.put(field.name(), child);
                }
            }
            return found.fields.isEmpty() ? NONE : found;
        }

        Node member(String name) {
            return fields == null ? each : fields.getOrDefault(name, NONE);
        }
    }

    /** A document, and as far as it is read, what it is to be. */
    private static final class Changed {
        private final byte[] value;
        private ByteArrayOutputStream out;
        private int copied;

        Changed(byte[] value) {
            this.value = value;
        }

        /** Goes through the value that begins here, to its end. */
        void within(JsonParser in, Node node) throws IOException {
            JsonToken token = in.currentToken();
            boolean replaced = node == Node.TEXT ? token.isNumeric() || token.isStructStart()
                    : node == Node.VARIANT && token != JsonToken.VALUE_NULL;
            if (node == Node.DECIMAL && token.isNumeric() && Variants.isRounded(in.getText())) {
                int begin = (int) in.currentTokenLocation().getByteOffset();
                in.finishToken();
                replace(begin, (int) in.currentLocation().getByteOffset(), NO_NUMBER);
                return;
            }
            if (replaced) {
                int begin = (int) in.currentTokenLocation().getByteOffset();
                in.skipChildren();
                in.finishToken();
                replace(begin, (int) in.currentLocation().getByteOffset(), node);
            } else if (token == JsonToken.START_OBJECT && (node.fields != null || node.each != null)) {
                while (in.nextToken() == JsonToken.FIELD_NAME) {
                    Node child = node.member(in.currentName());
                    in.nextToken();
                    within(in, child);
                }
            } else if (token == JsonToken.START_ARRAY && node.each != null) {
                while (in.nextToken() != JsonToken.END_ARRAY) {
                    within(in, node.each);
                }
            } else {
                in.skipChildren();
            }
        }

        private void replace(int begin, int end, Node node) throws IOException {
            String text = node == Node.VARIANT ? variant(begin, end)
                    : new String(text(value, begin, end), StandardCharsets.UTF_8);
            ByteArrayOutputStream quoted = new ByteArrayOutputStream(end - begin);
            quoted.write('"');
            quoted.write(JsonStringEncoder.getInstance().quoteAsUTF8(text));
            quoted.write('"');
            replace(begin, end, quoted.toByteArray());
        }

        private void replace(int begin, int end, byte[] other) {
            if (out == null) {
                out = new ByteArrayOutputStream(value.length + end - begin);
            }
            out.write(value, copied, begin - copied);
            out.writeBytes(other);
            copied = end;
        }

        private String variant(int begin, int end) {
            try {
                return Variants.text(value, begin, end);
            } catch (IOException none) {
                return "";
            }
        }

        byte[] whole() {
            if (out == null) {
                return value;
            }
            out.write(value, copied, value.length - copied);
            return out.toByteArray();
        }
    }
}
