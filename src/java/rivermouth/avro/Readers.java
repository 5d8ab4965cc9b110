package rivermouth.avro;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import org.apache.avro.Resolver;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.EncoderFactory;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Readers of a writer's records as rows of the table: Avro's own rules resolve the one schema to the other, and say
 * what to do with each field; here it is done, strictly and into Spark's own values.
 */
final class Readers {
    private static final int MESSAGE_CHARACTERS = 200;

    private final Skips skips = new Skips();

    private Readers() {}

    /**
     * The reader of a whole record; it gives a {@code GenericInternalRow}.
     *
     * @throws Refused a record of this writer cannot be read
     */
    static Reader of(Schema writer, Schema reader) {
        return resolved(writer, Aliases.usable(writer, reader));
    }

    /** The reader of any value, by Avro's own rules; what does not resolve is refused when it is read. */
    static Reader resolved(Schema writer, Schema reader) {
        return new Readers().of(Resolver.resolve(writer, reader));
    }

    private Reader of(Resolver.Action action) {
        switch (action.type) {
            case DO_NOTHING:
            case PROMOTE:
                return Leaves.of(action.writer, action.reader);
            case RECORD:
                return record((Resolver.RecordAdjust) action);
            case ENUM:
                return symbol((Resolver.EnumAdjust) action);
            case CONTAINER:
                Resolver.Container container = (Resolver.Container) action;
                return action.reader.getType() == Schema.Type.ARRAY ? array(container) : map(container);
            case WRITER_UNION:
                return written((Resolver.WriterUnion) action);
            case READER_UNION:
                Resolver.ReaderUnion union = (Resolver.ReaderUnion) action;
                return branch(action.reader, union.firstMatch, chosen(union));
            case SKIP:
                return skips.of(action.writer);
            default:
                String why = String.valueOf(action).replaceAll("\\s+", " ");
                String message = "the writer's schema does not resolve: "
                        + why.substring(0, Math.min(why.length(), MESSAGE_CHARACTERS));
                return in -> {
                    throw Refused.mismatch(message);
                };
        }
    }

    /** The value of the branch that Avro takes: of float and double the first, which holds fewer whole numbers. */
    private Reader chosen(Resolver.ReaderUnion action) {
        boolean promoted = action.actualAction.type == Resolver.Action.Type.PROMOTE;
        if (promoted && Columns.union(action.reader) == Columns.Union.FLOATS) {
            return Leaves.of(action.actualAction.writer, Schema.create(Schema.Type.DOUBLE));
        }
        return of(action.actualAction);
    }

    private Reader record(Resolver.RecordAdjust action) {
        List<Schema.Field> fields = action.reader.getFields();
        List<Schema.Field> written = action.writer.getFields();
        int steps = action.fieldActions.length;
        Reader[] readers = new Reader[steps];
        int[] places = new int[steps];
        String[] names = new String[steps];
        int read = 0;
        for (int step = 0; step < steps; step++) {
            boolean skipped = action.fieldActions[step].type == Resolver.Action.Type.SKIP;
            places[step] = skipped ? -1 : action.readerOrder[read++].pos();
            names[step] = skipped ? written.get(step).name() : fields.get(places[step]).name();
            readers[step] = of(action.fieldActions[step]);
        }
        Object[] blank = new Object[fields.size()];
        for (int place = action.firstDefault; place < action.readerOrder.length; place++) {
            Schema.Field field = action.readerOrder[place];
            blank[field.pos()] = resolved(field.schema(), field.schema()).read(byDefault(field));
        }
        return row(readers, places, names, blank);
    }

    /** One row: field by field as they were written, each into its place; that of a place below 0 is read and let go. */
    static Reader row(Reader[] readers, int[] places, String[] names, Object[] blank) {
        return in -> {
            Object[] values = blank.clone();
            for (int step = 0; step < readers.length; step++) {
                Object value;
                try {
                    value = readers[step].read(in);
                } catch (Refused refused) {
                    throw refused.within(names[step]);
                }
                if (places[step] >= 0) {
                    values[places[step]] = value;
                }
            }
            return new GenericInternalRow(values);
        };
    }

    /** The bytes of a field's default, so that it becomes what a value sent would. */
    static Input byDefault(Schema.Field field) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try {
            BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(bytes, null);
            new GenericDatumWriter<>(field.schema()).write(GenericData.get().getDefaultValue(field), encoder);
            encoder.flush();
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
        return new Input(bytes.toByteArray(), 0);
    }

    private static Reader symbol(Resolver.EnumAdjust action) {
        UTF8String[] symbols = new UTF8String[action.adjustments.length];
        for (int place = 0; place < symbols.length; place++) {
            int found = action.adjustments[place];
            symbols[place] = found < 0 ? null : UTF8String.fromString(action.reader.getEnumSymbols().get(found));
        }
        return symbol(symbols);
    }

    /** The text of one of the symbols, of which those that the table has not are null. */
    static Reader symbol(UTF8String[] symbols) {
        return in -> {
            UTF8String found = symbols[in.readIndex(symbols.length, "symbol")];
            if (found == null) {
                throw Refused.unfit("a symbol is unknown to the schema, which has no default");
            }
            return found;
        };
    }

    private Reader array(Resolver.Container action) {
        return items(of(action.elementAction), skips.least(action.writer.getElementType()));
    }

    private Reader map(Resolver.Container action) {
        return entries(of(action.elementAction), 1 + skips.least(action.writer.getValueType()));
    }

    /** An array, each of whose items has so many bytes at least. */
    static Reader items(Reader item, int least) {
        return in -> {
            List<Object> items = new ArrayList<>();
            for (int count = in.readBlock(least); count > 0; count = in.readBlock(least)) {
                int end = in.blockEnd();
                for (int place = 0; place < count; place++) {
                    items.add(part(item, in));
                }
                in.closeBlock(end);
            }
            return new GenericArrayData(items.toArray());
        };
    }

    /** A map, each of whose entries has so many bytes at least; of a key that stands twice the last value wins. */
    static Reader entries(Reader item, int least) {
        return in -> {
            Map<UTF8String, Object> items = new LinkedHashMap<>();
            for (int count = in.readBlock(least); count > 0; count = in.readBlock(least)) {
                int end = in.blockEnd();
                for (int place = 0; place < count; place++) {
                    UTF8String key = (UTF8String) part(Input::readText, in);
                    items.put(key, part(item, in));
                }
                in.closeBlock(end);
            }
            Object[] keys = items.keySet().toArray();
            return new ArrayBasedMapData(new GenericArrayData(keys), new GenericArrayData(items.values().toArray()));
        };
    }

    private static Object part(Reader item, Input in) {
        try {
            return item.read(in);
        } catch (Refused refused) {
            throw refused.within("[]");
        }
    }

    private Reader written(Resolver.WriterUnion action) {
        Reader[] branches = new Reader[action.actions.length];
        for (int place = 0; place < branches.length; place++) {
            Reader found = of(action.actions[place]);
            branches[place] = action.unionEquiv ? branch(action.reader, place, found) : found;
        }
        return in -> branches[in.readIndex(branches.length, "branch")].read(in);
    }

    /** What the column holds where the value is of one branch of the table's union. */
    private static Reader branch(Schema union, int place, Reader value) {
        if (union.getTypes().get(place).getType() == Schema.Type.NULL) {
            return value;
        }
        switch (Columns.union(union)) {
            case INTEGERS:
                return in -> ((Number) value.read(in)).longValue();
            case FLOATS:
                return in -> ((Number) value.read(in)).doubleValue();
            case MEMBERS:
                int members = Columns.branches(union).size();
                long nulls = union.getTypes().subList(0, place).stream()
                        .filter(each -> each.getType() == Schema.Type.NULL)
                        .count();
                int member = place - (int) nulls;
                return in -> {
                    Object[] values = new Object[members];
                    values[member] = value.read(in);
                    return new GenericInternalRow(values);
                };
            default:
                return value;
        }
    }
}
