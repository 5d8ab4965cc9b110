package rivermouth.avro;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

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
 * Readers of a writer's records as rows of the table: the one schema is resolved to the other by the rules of Avro's
 * specification, and each value is read strictly and into Spark's own.
 */
final class Readers {
    private static final int MESSAGE_CHARACTERS = 200;

    private final Skips skips = new Skips();

    private Readers() {}

    /**
     * The reader of a whole record, whatever its name is; it gives a {@code GenericInternalRow}.
     *
     * @throws Refused a record of this writer cannot be read
     */
    static Reader of(Schema writer, Schema reader) {
        Schema named = Schema.applyAliases(writer, Aliases.usable(writer, reader));
        boolean areRecords = named.getType() == Schema.Type.RECORD && reader.getType() == Schema.Type.RECORD;
        return areRecords ? new Readers().record(named, reader) : resolved(named, reader);
    }

    /** The reader of a value whose writer's names are the table's, as aliases say; what does not resolve is refused. */
    static Reader resolved(Schema writer, Schema reader) {
        return new Readers().value(writer, reader);
    }

    private Reader value(Schema writer, Schema reader) {
        if (writer.getType() == Schema.Type.UNION) {
            return written(writer, reader);
        }
        if (reader.getType() == Schema.Type.UNION) {
            int place = NamedTypes.branch(writer, reader);
            return place < 0
                    ? unresolved(writer, reader, "")
                    : branch(reader, place, chosen(writer, reader, place));
        }
        if (writer.getType() != reader.getType()) {
            return NamedTypes.isPromoted(writer, reader)
                    ? Leaves.of(writer, reader)
                    : unresolved(writer, reader, "");
        }
        if (!NamedTypes.agree(writer, reader)) {
            return unresolved(writer, reader, "");
        }
        switch (reader.getType()) {
            case RECORD:
                return record(writer, reader);
            case ENUM:
                return symbol(writer, reader);
            case ARRAY:
                Schema items = writer.getElementType();
                return items(value(items, reader.getElementType()), skips.least(items));
            case MAP:
                Schema values = writer.getValueType();
                return entries(value(values, reader.getValueType()), 1 + skips.least(values));
            case FIXED:
                return writer.getFixedSize() == reader.getFixedSize()
                        ? Leaves.of(writer, reader)
                        : unresolved(writer, reader, " of " + reader.getFixedSize() + " bytes");
            default:
                return Leaves.of(writer, reader);
        }
    }

    private static Reader unresolved(Schema writer, Schema reader, String why) {
        String told = "Found " + writer.getFullName() + ", expecting " + named(reader) + why;
        String message = "the writer's schema does not resolve: "
                + told.substring(0, Math.min(told.length(), MESSAGE_CHARACTERS));
        return in -> {
            throw Refused.mismatch(message);
        };
    }

    private static String named(Schema schema) {
        return schema.getType() == Schema.Type.UNION
                ? "union" + schema.getTypes().stream().map(Schema::getFullName).collect(Collectors.toList())
                : schema.getFullName();
    }

    /** The value of the branch that Avro takes: of float and double the first, which holds fewer whole numbers. */
    private Reader chosen(Schema writer, Schema union, int place) {
        Schema branch = union.getTypes().get(place);
        if (NamedTypes.isPromoted(writer, branch) && Columns.union(union) == Columns.Union.FLOATS) {
            return Leaves.of(writer, Schema.create(Schema.Type.DOUBLE));
        }
        return value(writer, branch);
    }

    private Reader record(Schema writer, Schema reader) {
        List<Schema.Field> written = writer.getFields();
        int steps = written.size();
        Reader[] readers = new Reader[steps];
        int[] places = new int[steps];
        String[] names = new String[steps];
        for (int step = 0; step < steps; step++) {
            Schema.Field field = written.get(step);
            Schema.Field mine = reader.getField(field.name());
            places[step] = mine == null ? -1 : mine.pos();
            names[step] = field.name();
            readers[step] = mine == null ? skips.of(field.schema()) : value(field.schema(), mine.schema());
        }
        Object[] blank = new Object[reader.getFields().size()];
        for (Schema.Field mine : reader.getFields()) {
            if (writer.getField(mine.name()) == null) {
                if (!mine.hasDefaultValue()) {
                    return unresolved(writer, reader, ", missing required field " + mine.name());
                }
                blank[mine.pos()] = resolved(mine.schema(), mine.schema()).read(byDefault(mine));
            }
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

    private static Reader symbol(Schema writer, Schema reader) {
        UTF8String[] symbols = writer.getEnumSymbols().stream()
                .map(each -> reader.hasEnumSymbol(each) ? each : reader.getEnumDefault())
                .map(each -> each == null ? null : UTF8String.fromString(each))
                .toArray(UTF8String[]::new);
        return symbol(symbols);
    }

    /** The text of one of the symbols; those that the table does not have are null. */
    static Reader symbol(UTF8String[] symbols) {
        return in -> {
            UTF8String found = symbols[in.readIndex(symbols.length, "symbol")];
            if (found == null) {
                throw Refused.unfit("a symbol is unknown to the schema, which has no default");
            }
            return found;
        };
    }

    /** An array whose items have at least {@code least} bytes each. */
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

    /** A map whose entries have at least {@code least} bytes each; of a key that is there twice the last value wins. */
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

    private Reader written(Schema union, Schema reader) {
        Reader[] branches = union.getTypes().stream().map(each -> value(each, reader)).toArray(Reader[]::new);
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
