package rivermouth.avro;

import java.io.IOException;
import java.util.HashSet;
import java.util.Locale;
import java.util.Set;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** The columns of a table that grows, and what happens to records of writers whose schemas it does not foresee. */
final class Policies {
    private static final ObjectMapper JSON = new ObjectMapper();
    // As of the formats that read documents: the field that a column of another name is read from.
    private static final String FIELD = "json_name";
    private static final String FAIL = "fail";

    /** The columns as they are now, with the names that their fields have where they are other ones. */
    final StructType columns;

    private final JsonNode words;
    private final boolean onlyFails;
    private final Set<SchemaId> lookedAt = new HashSet<>();

    /**
     * What {@code schemas/column_policies.py} writes down.
     *
     * @throws IllegalArgumentException it is something else
     */
    Policies(String text) {
        try {
            words = JSON.readTree(text);
        } catch (IOException error) {
            throw new IllegalArgumentException("these are no policies", error);
        }
        columns = (StructType) DataType.fromJson(words.path("schema").toString());
        onlyFails = words.path("only_fails").asBoolean();
        words.path("looked_at").forEach(each -> lookedAt.add(SchemaId.of(each.asInt())));
    }

    /** The columns as a table has them. */
    StructType bare() {
        StructType found = new StructType();
        for (StructField each : columns.fields()) {
            found = found.add(each.name(), each.dataType(), true);
        }
        return found;
    }

    /** Whether nothing more can be made of a writer's schema. */
    boolean isLookedAt(SchemaId id) {
        return lookedAt.contains(id);
    }

    /** The name that a column's field has with the writers. */
    static String field(StructField column) {
        return column.metadata().contains(FIELD) ? column.metadata().getString(FIELD) : column.name();
    }

    /** Whether the table gets columns for fields that it lacks, within a column or of a new one's name. */
    boolean grows(String column) {
        return word(column, "new").equals("evolve");
    }

    /** Whether a record is refused that has a value in such a field. */
    boolean refuses(String column) {
        String word = word(column, "new");
        return onlyFails ? word.equals(FAIL) : !word.equals("ignore");
    }

    boolean widens(String column) {
        return word(column, "type").equals("widen");
    }

    /** Whether a value of another type is passed over, to look at what comes behind it. */
    boolean passes(String column) {
        return onlyFails && !word(column, "type").equals(FAIL);
    }

    /** Whether a column has to have a value. */
    boolean requires(String column) {
        return word(column, "missing").equals(FAIL);
    }

    /** Whether a field that the writer lacks, or has as null, is null whatever Avro's rules say. */
    boolean forgives(String column) {
        return word(column, "missing").equals("null");
    }

    private String word(String column, String change) {
        JsonNode known = words.path("columns").path(column);
        if (known.isMissingNode() && change.equals("new")) {
            JsonNode named = words.path("named").path(column.toLowerCase(Locale.ROOT));
            return named.isMissingNode() ? words.path("others").asText() : named.asText();
        }
        return known.path(change).asText();
    }
}
