package rivermouth.json;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.io.JsonStringEncoder;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.unsafe.types.UTF8String;

import scala.collection.immutable.ArraySeq$;
import scala.collection.immutable.Seq;

/**
 * What JSON documents have that a schema does not: fields, and numbers beyond their types.
 *
 * <p>Nothing here decides whether a document is sound: of one that is not, nothing is found.
 */
public final class Undeclared implements Serializable {
    private static final long serialVersionUID = 1;
    private static final JsonFactory FACTORY = new JsonFactory();
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private final String tree;
    private transient volatile Node root;

    /**
     * Of one flow.
     *
     * @param tree the schema as {@code rows/undeclared.py} writes it
     */
    public Undeclared(String tree) {
        this.tree = tree;
        root();
    }

    /** Of a column with documents: a JSON object of JSON pointers and values that are not declared; null for none. */
    public Column found(String column) {
        return invoke("find", column, DataTypes.StringType, true);
    }

    /** Of a column with documents: whether a number in one needs a wider type than it is declared with. */
    public Column wider(String column) {
        return invoke("needsWider", column, DataTypes.BooleanType, false);
    }

    /** Of a column with documents: whether one is a JSON object from its beginning to its end. */
    public Column sound(String column) {
        return invoke("isSound", column, DataTypes.BooleanType, false);
    }

    /** For Spark: the fields that are not declared; a null is none. */
    public UTF8String find(byte[] value) {
        if (value == null) {
            return null;
        }
        try (JsonParser in = FACTORY.createParser(value)) {
            if (in.nextToken() != JsonToken.START_OBJECT) {
                return null;
            }
            Findings found = new Findings(value);
            found.object(in, root());
            return found.text();
        } catch (IOException | RuntimeException broken) {
            return null;
        }
    }

    /** For Spark: whether a number stands where its declared type does not hold it, and a wider one may. */
    public boolean needsWider(byte[] value) {
        if (value == null) {
            return false;
        }
        try (JsonParser in = FACTORY.createParser(value)) {
            return in.nextToken() == JsonToken.START_OBJECT && wider(in, root()) && in.nextToken() == null;
        } catch (IOException | RuntimeException broken) {
            return false;
        }
    }

    /** For Spark: whether the value is a JSON object and nothing else. */
    public boolean isSound(byte[] value) {
        if (value == null) {
            return false;
        }
        try (JsonParser in = FACTORY.createParser(value)) {
            return in.nextToken() == JsonToken.START_OBJECT && in.skipChildren() != null && in.nextToken() == null;
        } catch (IOException | RuntimeException broken) {
            return false;
        }
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Undeclared && tree.equals(((Undeclared) other).tree);
    }

    @Override
    public int hashCode() {
        return tree.hashCode();
    }

    /** Plans are printed: nothing of the schema. */
    @Override
    public String toString() {
        return "undeclared";
    }

    private Node root() {
        Node known = root;
        if (known == null) {
            try {
                known = MAPPER.readValue(tree, Node.class);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
            root = known;
        }
        return known;
    }

    private Column invoke(String method, String column, DataType type, boolean nullable) {
        Expression self = new Literal(this, new ObjectType(Undeclared.class));
        Expression value = ExpressionUtils.expression(functions.col(column));
        Seq<AbstractDataType> unsaid = sequence();
        return ExpressionUtils.column(new Invoke(self, method, type, sequence(value), unsaid, false, nullable, true));
    }

    @SafeVarargs
    @SuppressWarnings("unchecked")
    private static <T> Seq<T> sequence(T... items) {
        return (Seq<T>) (Seq<?>) ArraySeq$.MODULE$.unsafeWrapArray(items);
    }

    /** Reads one value to its end. */
    private static boolean wider(JsonParser in, Node node) throws IOException {
        boolean found = false;
        switch (in.currentToken()) {
            case START_OBJECT:
                while (in.nextToken() == JsonToken.FIELD_NAME) {
                    Node child = node.member(in.currentName());
                    in.nextToken();
                    found |= wider(in, child == null ? Node.ANY : child);
                }
                return found;
            case START_ARRAY:
                while (in.nextToken() != JsonToken.END_ARRAY) {
                    found |= wider(in, node.items == null ? Node.ANY : node.items);
                }
                return found;
            case VALUE_NUMBER_INT:
            case VALUE_NUMBER_FLOAT:
                return node.number != null && !holds(node, in);
            default:
                in.finishToken();
                return false;
        }
    }

    private static boolean holds(Node node, JsonParser in) throws IOException {
        boolean whole = in.currentToken() == JsonToken.VALUE_NUMBER_INT;
        switch (node.number) {
            case "tinyint":
                return whole && fits(in, Byte.SIZE);
            case "smallint":
                return whole && fits(in, Short.SIZE);
            case "int":
                return whole && fits(in, Integer.SIZE);
            case "bigint":
                return whole && fits(in, Long.SIZE);
            case "float":
                return Math.abs(Double.parseDouble(in.getText())) <= Float.MAX_VALUE;
            case "decimal":
                BigDecimal value = new BigDecimal(in.getText()).stripTrailingZeros();
                int places = Math.max(value.scale(), 0);
                return places <= node.scale && value.precision() - value.scale() <= node.precision - node.scale;
            default:
                return true;
        }
    }

    private static boolean fits(JsonParser in, int bits) throws IOException {
        return in.getBigIntegerValue().bitLength() < bits;
    }

    /** A part of the schema. */
    static final class Node {
        static final Node ANY = new Node();

        /** Of an object: its declared fields. */
        public Map<String, Node> fields;
        /** Of an object: whether other fields are reported. */
        public boolean others;
        /** Of an object: other fields of which it is said one by one. */
        public Map<String, Boolean> named = Map.of();
        /** Of an array: its elements. */
        public Node items;
        /** Of an object whose fields are not declared by name: what is in them. */
        public Node values;
        /** The type of a number. */
        public String number;
        public int precision;
        public int scale;

        Node member(String name) {
            return fields == null ? values : fields.get(name);
        }

        boolean reports(String name) {
            return fields != null && named.getOrDefault(name, others);
        }

        boolean isLooked() {
            return fields != null || items != null || values != null;
        }
    }

    /** What is found in one document. */
    private static final class Findings {
        private final byte[] document;
        private final StringBuilder path = new StringBuilder();
        private Map<String, byte[]> found;

        Findings(byte[] document) {
            this.document = document;
        }

        void object(JsonParser in, Node node) throws IOException {
            while (in.nextToken() == JsonToken.FIELD_NAME) {
                String name = in.currentName();
                Node child = node.member(name);
                JsonToken token = in.nextToken();
                if (child != null) {
                    within(in, child, name);
                } else if (token != JsonToken.VALUE_NULL && node.reports(name)) {
                    add(in, name);
                } else {
                    in.skipChildren();
                }
            }
        }

        private void array(JsonParser in, Node items) throws IOException {
            int index = 0;
            while (in.nextToken() != JsonToken.END_ARRAY) {
                within(in, items, Integer.toString(index));
                index++;
            }
        }

        private void within(JsonParser in, Node node, String name) throws IOException {
            JsonToken token = in.currentToken();
            boolean object = token == JsonToken.START_OBJECT && (node.fields != null || node.values != null);
            boolean array = token == JsonToken.START_ARRAY && node.items != null && node.items.isLooked();
            if (!object && !array) {
                in.skipChildren();
                return;
            }
            int before = path.length();
            step(name);
            if (object) {
                object(in, node);
            } else {
                array(in, node.items);
            }
            path.setLength(before);
        }

        /** As a JSON pointer has it: https://datatracker.ietf.org/doc/html/rfc6901 */
        private void step(String name) {
            path.append('/').append(name.replace("~", "~0").replace("/", "~1"));
        }

        private void add(JsonParser in, String name) throws IOException {
            int begin = (int) in.currentTokenLocation().getByteOffset();
            in.skipChildren();
            in.finishToken();
            int end = (int) in.currentLocation().getByteOffset();
            int before = path.length();
            step(name);
            if (found == null) {
                found = new LinkedHashMap<>();
            }
            found.put(path.toString(), Arrays.copyOfRange(document, begin, end));
            path.setLength(before);
        }

        UTF8String text() {
            if (found == null) {
                return null;
            }
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            char before = '{';
            for (Map.Entry<String, byte[]> each : found.entrySet()) {
                out.write(before);
                before = ',';
                byte[] name = new String(JsonStringEncoder.getInstance().quoteAsString(each.getKey()))
                        .getBytes(StandardCharsets.UTF_8);
                out.write('"');
                out.write(name, 0, name.length);
                out.write('"');
                out.write(':');
                out.write(each.getValue(), 0, each.getValue().length);
            }
            out.write('}');
            return UTF8String.fromBytes(out.toByteArray());
        }
    }
}
