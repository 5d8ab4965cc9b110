package rivermouth.avro;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;
import java.util.function.Consumer;
import java.util.stream.Collectors;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.avro.AvroRuntimeException;
import org.apache.avro.Schema;

/** The names that the table knows a writer's fields by. */
final class Aliases {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Aliases() {}

    /**
     * The table's schema with such aliases as a writer's can be resolved by: Avro knows none where a writer has a
     * field by its name and by an alias.
     *
     * @throws Refused the writer has several fields that are one of the table's
     */
    static Schema usable(Schema writer, Schema reader) {
        try {
            Schema.applyAliases(writer, reader);
            return reader;
        } catch (AvroRuntimeException twice) {
            refuseNeeded(writer, reader);
            return without(reader);
        }
    }

    /** Where a field has its own name its aliases are not needed; anywhere else none can be left out. */
    private static void refuseNeeded(Schema writer, Schema reader) {
        List<Set<String>> written = new ArrayList<>();
        walk(writer, none(), record -> written.add(names(record)));
        walk(reader, none(), record -> {
            for (Schema.Field field : record.getFields()) {
                if (written.stream().anyMatch(each -> isNamedByAlias(field, each))) {
                    throw Refused.mismatch("aliases of the table's fields name several fields of the writer");
                }
            }
        });
    }

    private static Schema without(Schema reader) {
        try {
            JsonNode text = JSON.readTree(reader.toString());
            strip(text);
            return new Schema.Parser().parse(text.toString());
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void strip(JsonNode type) {
        if (!type.isContainerNode()) {
            return;
        }
        if (type.isArray()) {
            type.forEach(Aliases::strip);
        }
        for (String part : new String[] {"type", "items", "values"}) {
            strip(type.path(part));
        }
        for (JsonNode field : type.path("fields")) {
            ((ObjectNode) field).remove("aliases");
            strip(field.path("type"));
        }
    }

    private static boolean isNamedByAlias(Schema.Field field, Set<String> written) {
        return !written.contains(field.name()) && !Collections.disjoint(written, field.aliases());
    }

    private static Set<String> names(Schema record) {
        return record.getFields().stream().map(Schema.Field::name).collect(Collectors.toSet());
    }

    private static Set<Schema> none() {
        return Collections.newSetFromMap(new IdentityHashMap<>());
    }

    private static void walk(Schema schema, Set<Schema> seen, Consumer<Schema> visit) {
        if (!seen.add(schema)) {
            return;
        }
        switch (schema.getType()) {
            case RECORD:
                visit.accept(schema);
                schema.getFields().forEach(each -> walk(each.schema(), seen, visit));
                break;
            case ARRAY:
                walk(schema.getElementType(), seen, visit);
                break;
            case MAP:
                walk(schema.getValueType(), seen, visit);
                break;
            case UNION:
                schema.getTypes().forEach(each -> walk(each, seen, visit));
                break;
            default:
        }
    }
}
