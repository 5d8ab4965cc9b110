package rivermouth.values;

import java.lang.reflect.Array;
import java.nio.ByteBuffer;
import java.time.OffsetDateTime;
import java.time.ZonedDateTime;
import java.util.AbstractList;
import java.util.ArrayList;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;

import org.apache.avro.generic.IndexedRecord;
import org.apache.spark.sql.types.DataType;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.BinaryNode;
import com.fasterxml.jackson.databind.node.POJONode;

/** Objects of any Java library: maps, Avro's records, Jackson's trees, and whatever has getters. */
final class JavaView implements View {
    private final boolean truncatesTimes;

    JavaView(boolean truncatesTimes) {
        this.truncatesTimes = truncatesTimes;
    }

    @Override
    public boolean truncatesTimes() {
        return truncatesTimes;
    }

    @Override
    public Object plain(Object value, DataType declared) {
        Object found = value;
        if (found instanceof AvroValue) {
            found = ((AvroValue) found).plain(declared);
        }
        if (found instanceof Optional) {
            found = ((Optional<?>) found).orElse(null);
        }
        if (found instanceof JsonNode) {
            found = ofTree((JsonNode) found);
        }
        Object text = text(found);
        return text == null ? time(found) : text;
    }

    @Override
    public Fields fields(Object value) {
        if (value instanceof Map) {
            return new MapFields((Map<?, ?>) value);
        }
        if (value instanceof IndexedRecord) {
            return AvroValue.fields((IndexedRecord) value);
        }
        return value == null ? null : Getters.fields(value);
    }

    /** Texts, and values that are written as a text. */
    private static Object text(Object value) {
        Object avro = AvroValue.text(value);
        if (avro != null) {
            return avro;
        }
        if (value instanceof Enum) {
            return ((Enum<?>) value).name();
        }
        return value instanceof CharSequence || value instanceof Character || value instanceof UUID
                ? value.toString()
                : null;
    }

    private static Object time(Object value) {
        if (value instanceof java.sql.Date) {
            return ((java.sql.Date) value).toLocalDate();
        }
        if (value instanceof java.sql.Timestamp || value instanceof Date && !(value instanceof java.sql.Time)) {
            return ((Date) value).toInstant();
        }
        if (value instanceof OffsetDateTime) {
            return ((OffsetDateTime) value).toInstant();
        }
        return value instanceof ZonedDateTime ? ((ZonedDateTime) value).toInstant() : sequence(value);
    }

    private static Object sequence(Object value) {
        if (value instanceof ByteBuffer) {
            ByteBuffer buffer = ((ByteBuffer) value).duplicate();
            byte[] bytes = new byte[buffer.remaining()];
            buffer.get(bytes);
            return bytes;
        }
        if (value == null || !value.getClass().isArray() || value instanceof byte[]) {
            return value;
        }
        return new AbstractList<Object>() {
            @Override
            public Object get(int place) {
                return Array.get(value, place);
            }

            @Override
            public int size() {
                return Array.getLength(value);
            }
        };
    }

    private static Object ofTree(JsonNode node) {
        switch (node.getNodeType()) {
            case STRING:
                return node.textValue();
            case BOOLEAN:
                return node.booleanValue();
            case NUMBER:
                return node.numberValue();
            case POJO:
                return ((POJONode) node).getPojo();
            case ARRAY:
                List<Object> items = new ArrayList<>();
                node.forEach(items::add);
                return items;
            case OBJECT:
                Map<String, Object> entries = new LinkedHashMap<>();
                node.fieldNames().forEachRemaining(name -> entries.put(name, node.get(name)));
                return entries;
            case BINARY:
                return ((BinaryNode) node).binaryValue();
            default:
                return null;
        }
    }

    /** A map's entries, found by texts of any class: Avro's maps have its own. */
    private static final class MapFields implements Fields {
        private final Map<?, ?> entries;

        MapFields(Map<?, ?> entries) {
            boolean plain = entries.keySet().stream().allMatch(key -> key instanceof String);
            this.entries = plain ? entries : byText(entries);
        }

        @Override
        public boolean has(String name) {
            return entries.containsKey(name);
        }

        @Override
        public Object get(String name) {
            return entries.get(name);
        }

        private static Map<String, Object> byText(Map<?, ?> entries) {
            Map<String, Object> found = new LinkedHashMap<>();
            entries.forEach((key, value) -> found.put(key instanceof CharSequence ? key.toString() : null, value));
            return found;
        }
    }
}
