package rivermouth.json;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.io.JsonStringEncoder;

import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

import rivermouth.internals.plan.Calls;

/**
 * What JSON documents have that a schema does not: fields, and values that are none of their column's type.
 *
 * <p>Nothing here decides whether a document is sound: of one that is not, nothing is found.
 */
public final class Undeclared implements Serializable {
    private static final long serialVersionUID = 1;
    /** Takes no other encoding for JSON: in UTF-16 a value would be none that Spark's parser reads, and has no bytes. */
    private static final JsonFactory FACTORY = TextPreserver.FACTORY;
    private static final byte[] NULL = "null".getBytes(StandardCharsets.US_ASCII);

    private final String tree;
    private transient volatile SchemaNode root;

    /**
     * Of one flow.
     *
     * @param tree the schema as {@code decoding/json/undeclared_fields.py} writes it
     */
    public Undeclared(String tree) {
        this.tree = tree;
        root();
    }

    /** Of a column with documents: a JSON object of JSON pointers and values that are not declared; null for none. */
    public Column found(String column) {
        return found(column, "CAST(array() AS array<string>)");
    }

    /**
     * As {@code found}, with some of the document's own fields besides, and those whose value is none of their type.
     *
     * @param column the documents
     * @param names SQL of an array of names
     */
    public Column found(String column, String names) {
        return Calls.of(this, "find", DataTypes.StringType, true, functions.col(column), functions.expr(names));
    }

    /** Of a column with documents: an array of the paths of fields that are not declared, each once; null for null. */
    public Column named(String column) {
        return Calls.of(this, "name", DataTypes.createArrayType(DataTypes.StringType, false), true, functions.col(column));
    }

    /** Of a column with documents: the same with null for each of their own fields that is none of its type. */
    public Column fitted(String column) {
        return Calls.of(this, "fit", DataTypes.BinaryType, true, functions.col(column));
    }

    /** Of a column with documents: whether a number in one needs a wider type than it is declared with. */
    public Column wider(String column) {
        return Calls.of(this, "needsWider", DataTypes.BooleanType, false, functions.col(column));
    }

    /** Of a column with documents: whether columns that shall keep all that is said of them do so. */
    public Column kept(String column) {
        return Calls.of(this, "isKept", DataTypes.BooleanType, false, functions.col(column));
    }

    /** Of a column with documents: whether one is a JSON object from its beginning to its end. */
    public Column sound(String column) {
        return Calls.of(this, "isSound", DataTypes.BooleanType, false, functions.col(column));
    }

    /** For Spark: the fields that are not declared, and those of their own that are told; a null is none. */
    public UTF8String find(byte[] value, ArrayData names) {
        if (value == null) {
            return null;
        }
        Findings found = new Findings(value);
        try (JsonParser in = FACTORY.createParser(value)) {
            if (in.nextToken() != JsonToken.START_OBJECT) {
                return null;
            }
            Set<String> asked = new HashSet<>();
            for (int place = 0; place < names.numElements(); place++) {
                asked.add(names.getUTF8String(place).toString());
            }
            List<Part> parts = parts(value, asked);
            parts.forEach(each -> found.whole.add(each.pointer));
            // In a document that has a field twice, a part may be within another one.
            parts.stream().filter(each -> !found.isWithinWhole(each.pointer)).forEach(found::add);
            found.object(in, root());
            return found.text();
        } catch (IOException | RuntimeException broken) {
            return null;
        }
    }

    /** For Spark: the paths of the fields that are not declared, nulls too: {@code name}, {@code a.name}, {@code a[].name}. */
    public ArrayData name(byte[] value) {
        if (value == null) {
            return null;
        }
        Set<String> found = new LinkedHashSet<>();
        try (JsonParser in = FACTORY.createParser(value)) {
            in.nextToken();
            name(in, root(), "", found);
        } catch (IOException | RuntimeException broken) {
            found.clear();
        }
        return new GenericArrayData(found.stream().map(UTF8String::fromString).toArray());
    }

    private static void name(JsonParser in, SchemaNode node, String path, Set<String> found) throws IOException {
        JsonToken token = in.currentToken();
        if (token == JsonToken.START_OBJECT && (node.fields != null || node.values != null)) {
            while (in.nextToken() == JsonToken.FIELD_NAME) {
                String field = in.currentName();
                SchemaNode child = node.member(field);
                String below = node.fields == null ? path + "[]" : path.isEmpty() ? field : path + "." + field;
                in.nextToken();
                if (child == null) {
                    found.add(below);
                    in.skipChildren();
                } else {
                    name(in, child, below, found);
                }
            }
        } else if (token == JsonToken.START_ARRAY && node.items != null) {
            while (in.nextToken() != JsonToken.END_ARRAY) {
                name(in, node.items, path + "[]", found);
            }
        } else {
            in.skipChildren();
        }
    }

    /** For Spark: the document without what is none of its type; one that is not sound as it is. */
    public byte[] fit(byte[] value) {
        if (value == null) {
            return null;
        }
        List<Part> parts;
        try {
            parts = parts(value, Set.of());
        } catch (IOException | RuntimeException broken) {
            return value;
        }
        ByteArrayOutputStream out = new ByteArrayOutputStream(value.length);
        int kept = 0;
        for (Part each : parts) {
            out.write(value, kept, each.begin - kept);
            out.write(NULL, 0, NULL.length);
            kept = each.end;
        }
        if (kept == 0) {
            return value;
        }
        out.write(value, kept, value.length - kept);
        return out.toByteArray();
    }

    /** For Spark: whether a declared type does not hold the number that was sent, and a wider one may. */
    public boolean needsWider(byte[] value) {
        if (value == null) {
            return false;
        }
        try (JsonParser in = FACTORY.createParser(value)) {
            return in.nextToken() == JsonToken.START_OBJECT && root().wider(in) && in.nextToken() == null;
        } catch (IOException | RuntimeException broken) {
            return false;
        }
    }

    /** For Spark: whether all is kept that shall be; of a document that is not sound nothing is said. */
    public boolean isKept(byte[] value) {
        if (value == null || !root().isLooked()) {
            return true;
        }
        try (JsonParser in = FACTORY.createParser(value)) {
            return in.nextToken() != JsonToken.START_OBJECT || root().keeps(in);
        } catch (IOException | RuntimeException broken) {
            return true;
        }
    }

    /** For Spark: whether the value is a JSON object and nothing else. */
    public boolean isSound(byte[] value) {
        return value != null && isObject(value);
    }

    /** Whether a value is a JSON object and nothing else. */
    static boolean isObject(byte[] value) {
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

    SchemaNode root() {
        SchemaNode known = root;
        if (known == null) {
            known = SchemaNode.of(tree);
            root = known;
        }
        return known;
    }

    /** The document's own fields that are asked for by name, or whose value is none of its type. */
    private List<Part> parts(byte[] value, Set<String> asked) throws IOException {
        try (JsonParser in = FACTORY.createParser(value)) {
            return Misfits.of(in, root(), asked);
        }
    }

    /** What is found in one document. */
    private static final class Findings {
        private final byte[] document;
        private final Set<String> whole = new HashSet<>();
        private final StringBuilder path = new StringBuilder();
        private Map<String, byte[]> found;

        Findings(byte[] document) {
            this.document = document;
        }

        /** Those of an object, but for the fields that are found as a whole. */
        void object(JsonParser in, SchemaNode node) throws IOException {
            while (in.nextToken() == JsonToken.FIELD_NAME) {
                String name = in.currentName();
                SchemaNode child = node.member(name);
                JsonToken token = in.nextToken();
                if (isWhole(name)) {
                    in.skipChildren();
                } else if (child != null) {
                    within(in, child, name);
                } else if (token != JsonToken.VALUE_NULL && node.reports(name)) {
                    add(in, name, node.waitsForValue(name));
                } else {
                    in.skipChildren();
                }
            }
        }

        private void array(JsonParser in, SchemaNode items) throws IOException {
            int index = 0;
            while (in.nextToken() != JsonToken.END_ARRAY) {
                within(in, items, Integer.toString(index));
                index++;
            }
        }

        private void within(JsonParser in, SchemaNode node, String name) throws IOException {
            JsonToken token = in.currentToken();
            boolean object = token == JsonToken.START_OBJECT && (node.fields != null || node.values != null);
            boolean array = token == JsonToken.START_ARRAY && node.items != null && node.items.isLooked();
            if (!object && !array) {
                in.skipChildren();
                return;
            }
            int before = path.length();
            Part.step(path, name);
            if (object) {
                object(in, node);
            } else {
                array(in, node.items);
            }
            path.setLength(before);
        }

        private boolean isWhole(String name) {
            return !whole.isEmpty() && whole.contains(pointer(name));
        }

        boolean isWithinWhole(String pointer) {
            int end = pointer.lastIndexOf('/');
            return end > 0 && (whole.contains(pointer.substring(0, end)) || isWithinWhole(pointer.substring(0, end)));
        }

        private String pointer(String name) {
            int before = path.length();
            Part.step(path, name);
            String whole = path.toString();
            path.setLength(before);
            return whole;
        }

        private void add(JsonParser in, String name, boolean waits) throws IOException {
            int begin = (int) in.currentTokenLocation().getByteOffset();
            if (waits && isEmpty(in)) {
                return;
            }
            in.skipChildren();
            in.finishToken();
            add(new Part(pointer(name), begin, (int) in.currentLocation().getByteOffset()));
        }

        /** Whether objects and arrays alone stand here, and null; then, or if it began one, it is read to its end. */
        private static boolean isEmpty(JsonParser in) throws IOException {
            if (!in.currentToken().isStructStart()) {
                return false;
            }
            boolean empty = true;
            int depth = 1;
            while (depth > 0) {
                JsonToken token = in.nextToken();
                if (token.isStructStart()) {
                    depth++;
                } else if (token.isStructEnd()) {
                    depth--;
                } else {
                    empty &= token == JsonToken.FIELD_NAME || token == JsonToken.VALUE_NULL;
                }
            }
            return empty;
        }

        void add(Part part) {
            if (found == null) {
                found = new LinkedHashMap<>();
            }
            found.put(part.pointer, Arrays.copyOfRange(document, part.begin, part.end));
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
