package rivermouth.json;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;

/**
 * Finds the fields of a document whose value is none of their type.
 *
 * <p>Such a field is one of the document itself. If the schema says {@code nested}, it is the innermost field that does
 * not fit, also within objects of arrays.
 */
final class Misfits {
    private final JsonParser in;
    private final boolean nested;
    private final StringBuilder path = new StringBuilder();
    private final List<Part> found = new ArrayList<>();

    private Misfits(JsonParser in, boolean nested) {
        this.in = in;
        this.nested = nested;
    }

    /**
     * The misfits of a document.
     *
     * @param in before its first token
     * @param root the schema
     * @param asked names of fields that are taken as a whole, whether they fit or not
     */
    static List<Part> of(JsonParser in, SchemaNode root, Set<String> asked) throws IOException {
        Misfits misfits = new Misfits(in, root.nested);
        if (in.nextToken() == JsonToken.START_OBJECT) {
            while (in.nextToken() == JsonToken.FIELD_NAME) {
                String name = in.currentName();
                misfits.field(name, SchemaNode.within(root, name), asked.contains(name));
            }
        }
        return misfits.found;
    }

    /** Reads the value of a field to its end. */
    private void field(String name, SchemaNode node, boolean asked) throws IOException {
        in.nextToken();
        int begin = (int) in.currentTokenLocation().getByteOffset();
        int before = path.length();
        int known = found.size();
        boolean fits;
        if (nested) {
            Part.step(path, name);
            fits = value(node);
            path.setLength(before);
        } else {
            fits = node.fits(in);
        }
        in.finishToken();
        if (asked || !fits) {
            found.subList(known, found.size()).clear();
            Part.step(path, name);
            found.add(new Part(path.toString(), begin, (int) in.currentLocation().getByteOffset()));
            path.setLength(before);
        }
    }

    /** Whether the value that begins here fits, apart from fields in it that were found; reads it to its end. */
    private boolean value(SchemaNode node) throws IOException {
        JsonToken token = in.currentToken();
        if (token == JsonToken.START_OBJECT && "struct".equals(node.kind)) {
            while (in.nextToken() == JsonToken.FIELD_NAME) {
                String name = in.currentName();
                field(name, SchemaNode.within(node, name), false);
            }
            return true;
        }
        if (token == JsonToken.START_ARRAY && "array".equals(node.kind)) {
            return items(node.items);
        }
        return node.fits(in);
    }

    private boolean items(SchemaNode node) throws IOException {
        boolean fit = true;
        for (int index = 0; in.nextToken() != JsonToken.END_ARRAY; index++) {
            int before = path.length();
            Part.step(path, Integer.toString(index));
            fit &= value(node);
            path.setLength(before);
        }
        return fit;
    }
}
