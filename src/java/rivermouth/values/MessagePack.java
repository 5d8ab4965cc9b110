package rivermouth.values;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** A value is one map in MessagePack: a row of the declared columns. */
public final class MessagePack extends Step {
    private static final long serialVersionUID = 1;

    private final String declared;
    private final boolean anyFields;
    private final boolean truncatesTimes;
    private transient Fitting.Columns columns;

    /**
     * Of one flow.
     *
     * @param declared the schema, as JSON
     * @param anyFields whether a map may have none of its columns
     * @param truncatesTimes whether what is less than a microsecond is cut off of times
     * @throws IllegalArgumentException no value becomes one of its types
     */
    public MessagePack(String declared, boolean anyFields, boolean truncatesTimes) {
        this.declared = declared;
        this.anyFields = anyFields;
        this.truncatesTimes = truncatesTimes;
        columns();
    }

    @Override
    Object of(byte[] value) {
        Object found = new PackedInput(value).all();
        View.Fields fields = Seen.fieldsOf(found);
        if (fields == null) {
            throw new Refused("NOT_AN_OBJECT", "the value is no map");
        }
        return anyFields ? columns().row(fields) : columns().namedRow(fields);
    }

    @Override
    DataType type() {
        return schema().asNullable();
    }

    @Override
    List<Object> key() {
        return List.of(declared, anyFields, truncatesTimes);
    }

    private StructType schema() {
        return (StructType) DataType.fromJson(declared);
    }

    private Fitting.Columns columns() {
        if (columns == null) {
            columns = new Fitting.Columns(schema(), "", new Seen(truncatesTimes));
        }
        return columns;
    }

    /** Types that MessagePack lacks are read from strings that say them as ISO 8601, or a decimal, does. */
    private static final class Seen implements View {
        private final boolean truncatesTimes;

        Seen(boolean truncatesTimes) {
            this.truncatesTimes = truncatesTimes;
        }

        @Override
        public boolean truncatesTimes() {
            return truncatesTimes;
        }

        @Override
        public Object plain(Object value, DataType declared) {
            Object found = value instanceof UTF8String ? Texts.iso(value.toString(), declared) : null;
            return found == null ? value : found;
        }

        @Override
        public Fields fields(Object value) {
            return fieldsOf(value);
        }

        static Fields fieldsOf(Object value) {
            return value instanceof Map ? new MapFields((Map<?, ?>) value) : null;
        }
    }

    private static final class MapFields implements View.Fields {
        private final Map<?, ?> entries;

        MapFields(Map<?, ?> entries) {
            this.entries = entries;
        }

        @Override
        public boolean has(String name) {
            return entries.containsKey(UTF8String.fromString(name));
        }

        @Override
        public Iterable<String> names() {
            List<String> found = new ArrayList<>();
            entries.keySet().forEach(key -> found.add(String.valueOf(key)));
            return found;
        }

        @Override
        public Object get(String name) {
            return entries.get(UTF8String.fromString(name));
        }
    }
}
