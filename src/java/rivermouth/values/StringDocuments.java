package rivermouth.values;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonFactoryBuilder;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

import rivermouth.types.Limits;

/**
 * A JSON document with the documents that stand in its strings in the place of those strings.
 *
 * <p>One that is not sound is left as it is: its reader says why.
 */
public final class StringDocuments extends Step {
    private static final long serialVersionUID = 1;
    private static final JsonFactory FACTORY =
            new JsonFactoryBuilder().disable(JsonFactory.Feature.CHARSET_DETECTION).build();
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private final String tree;
    private transient volatile Node root;

    /**
     * Of one flow.
     *
     * @param tree where there are such strings, as {@code decoding/json/nested_documents.py} writes it
     */
    public StringDocuments(String tree) {
        this.tree = tree;
        root();
    }

    /** A part of documents. */
    static final class Node {
        /** Of an object: what is in its fields. */
        public Map<String, Node> fields = Map.of();
        /** Of an array: what is in its elements; of an object, in all other fields. */
        public Node each;
        /** Whether it is a string with a document; the other fields then describe that document. */
        public boolean document;
    }

    @Override
    Object of(byte[] value) {
        checkUtf8(value);
        Changed changed = new Changed(value);
        try (JsonParser in = FACTORY.createParser(value)) {
            in.nextToken();
            changed.within(in, root(), "");
            if (in.nextToken() != null) {
                return value;
            }
        } catch (IOException broken) {
            return value;
        }
        if (changed.refused != null) {
            throw changed.refused;
        }
        return changed.whole();
    }

    @Override
    DataType type() {
        return DataTypes.BinaryType;
    }

    @Override
    List<Object> key() {
        return List.of(tree);
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

    /** The document in a string. */
    private static byte[] document(String text, Node node, String path) {
        if (!Limits.isText(text)) {
            throw new Refused("LONE_SURROGATE", path,
                    "field " + path + " holds an escape that is half a character (a surrogate without its pair)");
        }
        byte[] value = text.getBytes(StandardCharsets.UTF_8);
        Changed changed = new Changed(value);
        boolean sound;
        try (JsonParser in = FACTORY.createParser(value)) {
            sound = in.nextToken() != null;
            if (sound) {
                changed.inside(in, node, path);
                sound = in.nextToken() == null;
            }
        } catch (IOException broken) {
            sound = false;
        }
        if (!sound) {
            throw new Refused("INVALID_JSON", path, "field " + path + " holds a string that is no JSON document");
        }
        if (changed.refused != null) {
            throw changed.refused;
        }
        return changed.whole();
    }

    private static String words(JsonToken token) {
        switch (token) {
            case START_OBJECT:
                return "an object";
            case START_ARRAY:
                return "an array";
            case VALUE_TRUE:
            case VALUE_FALSE:
                return "a boolean";
            case VALUE_NUMBER_INT:
                return "a whole number";
            default:
                return "a number with a fraction or an exponent";
        }
    }

    /** A document, and as far as it is read, what it is to be. */
    private static final class Changed {
        private final byte[] value;
        private ByteArrayOutputStream out;
        private int copied;
        /** What is wrong with the first string that cannot be replaced. */
        private Refused refused;

        Changed(byte[] value) {
            this.value = value;
        }

        /** Goes through the value that begins here, to its end. */
        void within(JsonParser in, Node node, String path) throws IOException {
            JsonToken token = in.currentToken();
            if (!node.document || token == JsonToken.VALUE_NULL) {
                inside(in, node, path);
                return;
            }
            int begin = (int) in.currentTokenLocation().getByteOffset();
            try {
                if (token != JsonToken.VALUE_STRING) {
                    String held = words(token);
                    in.skipChildren();
                    throw new Refused("FIELD_TYPE", path, "field " + path + " is a document in a string and holds " + held);
                }
                byte[] inner = document(in.getText(), node, path);
                replace(begin, (int) in.currentLocation().getByteOffset(), inner);
            } catch (Refused found) {
                refused = refused == null ? found : refused;
            }
        }

        /** The same for what is in the value. */
        void inside(JsonParser in, Node node, String path) throws IOException {
            JsonToken token = in.currentToken();
            if (token == JsonToken.START_OBJECT) {
                while (in.nextToken() == JsonToken.FIELD_NAME) {
                    String name = in.currentName();
                    Node child = node.fields.get(name);
                    in.nextToken();
                    if (child != null) {
                        within(in, child, path.isEmpty() ? name : path + "." + name);
                    } else if (node.each != null) {
                        within(in, node.each, path + "[]");
                    } else {
                        in.skipChildren();
                    }
                }
            } else if (token == JsonToken.START_ARRAY && node.each != null) {
                while (in.nextToken() != JsonToken.END_ARRAY) {
                    within(in, node.each, path + "[]");
                }
            } else {
                in.skipChildren();
            }
        }

        private void replace(int begin, int end, byte[] inner) {
            if (out == null) {
                out = new ByteArrayOutputStream(value.length);
            }
            out.write(value, copied, begin - copied);
            out.writeBytes(inner);
            copied = end;
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
