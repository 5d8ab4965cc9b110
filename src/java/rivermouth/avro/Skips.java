package rivermouth.avro;

import java.util.IdentityHashMap;
import java.util.Map;

import org.apache.avro.Schema;

/** Passes over what a writer has and the table has not, by its schema, which may hold itself. */
final class Skips {
    private static final int MOST_BYTES = 1 << 20;

    private final Map<Schema, Reader> known = new IdentityHashMap<>();
    private final Map<Schema, Integer> least = new IdentityHashMap<>();

    /** The fewest bytes that a value of the schema has. */
    int least(Schema schema) {
        switch (schema.getType()) {
            case NULL:
                return 0;
            case FLOAT:
                return Float.BYTES;
            case DOUBLE:
                return Double.BYTES;
            case FIXED:
                return Math.min(schema.getFixedSize(), MOST_BYTES);
            case RECORD:
                return leastOfRecord(schema);
            default:
                return 1;
        }
    }

    /** Types are shared: each is counted once, or their number would double with every level. */
    private int leastOfRecord(Schema schema) {
        Integer there = least.putIfAbsent(schema, 1);
        if (there != null) {
            return there;
        }
        int sum = 0;
        for (Schema.Field field : schema.getFields()) {
            sum = Math.min(sum + least(field.schema()), MOST_BYTES);
        }
        least.put(schema, sum);
        return sum;
    }

    /** A reader that reads nothing. */
    Reader of(Schema schema) {
        Reader there = known.get(schema);
        if (there != null) {
            return there;
        }
        // What holds itself asks for its own reader before there is one.
        known.put(schema, in -> known.get(schema).read(in));
        Reader made = make(schema);
        known.put(schema, made);
        return made;
    }

    private Reader make(Schema schema) {
        switch (schema.getType()) {
            case NULL:
                return in -> null;
            case BOOLEAN:
                return passing(Input::readBoolean);
            case INT:
                return passing(Input::readInt);
            case LONG:
                return passing(Input::readLong);
            case FLOAT:
                return passing(in -> in.skip(Float.BYTES));
            case DOUBLE:
                return passing(in -> in.skip(Double.BYTES));
            case STRING:
            case BYTES:
                return passing(Input::skipBytes);
            case FIXED:
                int size = schema.getFixedSize();
                return passing(in -> in.skip(size));
            case ENUM:
                int symbols = schema.getEnumSymbols().size();
                return passing(in -> in.readIndex(symbols, "symbol"));
            case UNION:
                Reader[] branches = schema.getTypes().stream().map(this::of).toArray(Reader[]::new);
                return in -> branches[in.readIndex(branches.length, "branch")].read(in);
            case RECORD:
                return record(schema);
            case ARRAY:
                return items(of(schema.getElementType()), least(schema.getElementType()), false);
            default:
                return items(of(schema.getValueType()), 1 + least(schema.getValueType()), true);
        }
    }

    private Reader record(Schema schema) {
        Reader[] fields = schema.getFields().stream().map(each -> of(each.schema())).toArray(Reader[]::new);
        return in -> {
            in.deeper();
            for (Reader each : fields) {
                each.read(in);
            }
            in.higher();
            return null;
        };
    }

    private static Reader items(Reader each, int least, boolean keys) {
        return in -> {
            in.deeper();
            for (int count = in.readBlock(least); count > 0; count = in.readBlock(least)) {
                int end = in.blockEnd();
                for (int place = 0; place < count; place++) {
                    if (keys) {
                        in.skipBytes();
                    }
                    each.read(in);
                }
                in.closeBlock(end);
            }
            in.higher();
            return null;
        };
    }

    private static Reader passing(java.util.function.Consumer<Input> over) {
        return in -> {
            over.accept(in);
            return null;
        };
    }
}
