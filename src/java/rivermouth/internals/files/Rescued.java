package rivermouth.internals.files;

import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.util.LinkedHashMap;
import java.util.Map;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.io.JsonStringEncoder;

import org.apache.spark.sql.Column;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

import rivermouth.internals.plan.Calls;

/** The text of the rescued data column: a JSON object of the rescued fields, nested as in their document, and the file. */
public final class Rescued implements Serializable {
    private static final long serialVersionUID = 1;
    /** Without limits: what is read here was JSON before, or is the text of a whole file. */
    private static final JsonFactory FACTORY = JsonFactory.builder()
            .streamReadConstraints(StreamReadConstraints.builder()
                    .maxStringLength(Integer.MAX_VALUE)
                    .maxNameLength(Integer.MAX_VALUE)
                    .maxNumberLength(Integer.MAX_VALUE)
                    .maxNestingDepth(Integer.MAX_VALUE)
                    .build())
            .build();
    private static final String FILE = "_file_path";

    /**
     * Text of the rescued data; null where nothing is rescued.
     *
     * @param pointers a JSON object from JSON pointers to values, as {@code json.Undeclared} makes it, or null
     * @param file the file's address
     */
    public Column of(String pointers, String file) {
        return Calls.of(this, "text", DataTypes.StringType, true, functions.expr(pointers), functions.expr(file));
    }

    /** For Spark: the text, or null. */
    public UTF8String text(UTF8String pointers, UTF8String file) {
        if (pointers == null) {
            return null;
        }
        try {
            Map<String, Object> root = nested(pointers.toString());
            if (root.isEmpty()) {
                return null;
            }
            StringBuilder out = new StringBuilder();
            if (file != null) {
                root.put(FILE, quoted(file.toString()));
            }
            write(root, out);
            return UTF8String.fromString(out.toString());
        } catch (IOException broken) {
            throw new UncheckedIOException(broken);
        }
    }

    static String quoted(String text) {
        return '"' + new String(JsonStringEncoder.getInstance().quoteAsString(text)) + '"';
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> nested(String pointers) throws IOException {
        Map<String, Object> root = new LinkedHashMap<>();
        try (JsonParser in = FACTORY.createParser(pointers)) {
            in.nextToken();
            while (in.nextToken() == JsonToken.FIELD_NAME) {
                String[] steps = in.currentName().substring(1).split("/", -1);
                in.nextToken();
                int begin = (int) in.currentTokenLocation().getCharOffset();
                in.skipChildren();
                in.finishToken();
                String value = pointers.substring(begin, (int) in.currentLocation().getCharOffset()).strip();
                Map<String, Object> place = root;
                for (int step = 0; step < steps.length - 1; step++) {
                    Object inner = place.computeIfAbsent(name(steps[step]), name -> new LinkedHashMap<String, Object>());
                    if (!(inner instanceof Map)) {
                        break;
                    }
                    place = (Map<String, Object>) inner;
                }
                place.putIfAbsent(name(steps[steps.length - 1]), value);
            }
        }
        return root;
    }

    private static String name(String step) {
        return step.replace("~1", "/").replace("~0", "~");
    }

    private static void write(Map<?, ?> members, StringBuilder out) {
        char between = '{';
        for (Map.Entry<?, ?> each : members.entrySet()) {
            out.append(between).append(quoted(each.getKey().toString())).append(':');
            if (each.getValue() instanceof Map) {
                write((Map<?, ?>) each.getValue(), out);
            } else {
                out.append(each.getValue());
            }
            between = ',';
        }
        out.append('}');
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Rescued;
    }

    @Override
    public int hashCode() {
        return Rescued.class.hashCode();
    }
}
