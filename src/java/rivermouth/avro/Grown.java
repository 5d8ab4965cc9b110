package rivermouth.avro;

import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.IntStream;

import org.apache.avro.Schema;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Readers of a writer's records as rows of a table whose columns have grown out of a declared schema. What the table
 * has as it was declared is resolved by Avro's rules; what has come since is what its writers say it is.
 */
final class Grown {
    /** Marks a value that was passed over. */
    private static final Object PASSED = new Object();
    /** Of no fields. */
    static final ArrayData NO_NAMES = new GenericArrayData(new Object[0]);

    private final Policies policies;
    private final Skips skips = new Skips();
    private boolean grows;
    private final Set<String> ignored = new LinkedHashSet<>();
    /** Of the value whose reader is made: {@code a.b}, {@code items[]}; empty of the whole record. */
    private String path = "";

    private Grown(Policies policies) {
        this.policies = policies;
    }

    /** How records of a writer are read, whether the table may grow by the writer's schema, and what it leaves out. */
    static final class Made {
        final Reader reader;
        final boolean grows;
        /** The paths of the fields that no column has, and nobody misses: {@code note}, {@code a.note}, {@code items[].note}. */
        final ArrayData undeclared;
        /** Whether its records are others' than the flow's. */
        final boolean isSkipped;

        /** The same, of a writer that is nothing new to the table. */
        Made withoutGrowth() {
            return new Made(reader, false, undeclared, isSkipped);
        }

        Made(Reader reader, boolean grows, Collection<String> undeclared) {
            this(reader, grows, new GenericArrayData(undeclared.stream().map(UTF8String::fromString).toArray()), false);
        }

        private Made(Reader reader, boolean grows, ArrayData undeclared, boolean isSkipped) {
            this.reader = reader;
            this.grows = grows;
            this.undeclared = undeclared;
            this.isSkipped = isSkipped;
        }

        /** Of a writer whose records are others' than the flow's. */
        static Made skipped() {
            return new Made(in -> null, false, NO_NAMES, true);
        }

        /** Of a writer whose records cannot be read. */
        static Made refused(String reason, String message) {
            Reader refusing = in -> {
                throw new Refused(reason, message);
            };
            return new Made(refusing, false, List.of());
        }
    }

    /**
     * The reader of a whole record; it gives a {@code GenericInternalRow} of the policies' columns.
     *
     * @throws Refused a record of this writer cannot be read
     */
    static Made of(Schema writer, Schema declared, Policies policies) {
        Schema named = named(writer, declared);
        if (named.getType() != Schema.Type.RECORD) {
            return new Made(Readers.resolved(named, declared), false, List.of());
        }
        Grown grown = new Grown(policies);
        Reader whole = grown.record(named, declared, policies.columns, null);
        return new Made(grown.complete(whole), grown.grows, grown.ignored);
    }

    /** The writer's schema with the table's names, as aliases say. */
    static Schema named(Schema writer, Schema declared) {
        return Schema.applyAliases(writer, Aliases.usable(writer, declared));
    }

    /** A record all of whose columns are there that have to be. */
    private Reader complete(Reader whole) {
        StructField[] columns = policies.columns.fields();
        int[] required = IntStream.range(0, columns.length)
                .filter(place -> policies.requires(columns[place].name()))
                .toArray();
        if (required.length == 0) {
            return whole;
        }
        return in -> {
            GenericInternalRow row = (GenericInternalRow) whole.read(in);
            for (int place : required) {
                if (row.isNullAt(place)) {
                    throw new Refused("FIELD_MISSING", "the column has no value").within(columns[place].name());
                }
            }
            return row;
        };
    }

    /** A record as a struct; {@code column} is the one around it, null for the whole record. */
    private Reader record(Schema writer, Schema declared, StructType target, String column) {
        Map<String, Integer> known = new LinkedHashMap<>();
        StructField[] columns = target.fields();
        for (int place = 0; place < columns.length; place++) {
            known.put(Policies.field(columns[place]), place);
        }
        List<Schema.Field> written = writer.getFields();
        int steps = written.size();
        Reader[] readers = new Reader[steps];
        int[] places = new int[steps];
        String[] names = new String[steps];
        for (int step = 0; step < steps; step++) {
            Schema.Field field = written.get(step);
            Integer place = known.remove(field.name());
            names[step] = place == null ? field.name() : columns[place].name();
            places[step] = place == null ? -1 : place;
            if (place == null) {
                String within = column == null ? field.name() : column;
                if (!policies.refuses(within)) {
                    ignored.add(Surplus.below(path, field.name()));
                }
                readers[step] = undeclared(field.schema(), within);
            } else {
                Schema.Field mine = declared == null ? null : declared.getField(field.name());
                String within = column == null ? columns[place].name() : column;
                boolean free = policies.forgives(within) || column == null && policies.requires(within);
                Schema type = mine == null ? null : mine.schema();
                String around = path;
                path = Surplus.below(path, columns[place].name());
                Reader value = value(field.schema(), type, columns[place].dataType(), within, free);
                path = around;
                readers[step] = passing(value, field, within);
            }
        }
        Object[] blank = new Object[columns.length];
        for (int place : known.values()) {
            boolean free = column == null && policies.requires(columns[place].name());
            blank[place] = absent(declared, columns[place], column == null ? columns[place].name() : column, free);
        }
        return Readers.row(readers, places, names, blank);
    }

    /** What a field of the table has that the writer has not. */
    private Object absent(Schema declared, StructField column, String within, boolean free) {
        Schema.Field mine = declared == null ? null : declared.getField(Policies.field(column));
        if (mine != null && mine.hasDefaultValue()) {
            Schema type = mine.schema();
            Set<String> known = Set.copyOf(ignored);
            Object value = value(type, type, column.dataType(), within, true).read(Readers.byDefault(mine));
            ignored.retainAll(known); // what the default has is none of the writer's
            return value;
        }
        if (mine == null || free || policies.forgives(within)) {
            return null;
        }
        throw Refused.mismatch("the writer's schema lacks the field " + mine.name() + ", which has no default");
    }

    /** A field that no column takes: a value of it, other than null, may be a reason to refuse its record. */
    private Reader undeclared(Schema schema, String column) {
        grows |= policies.grows(column) && WriterColumns.isColumn(schema);
        Reader skip = skips.of(schema);
        if (!policies.refuses(column) || schema.getType() == Schema.Type.NULL) {
            return skip;
        }
        if (schema.getType() == Schema.Type.UNION) {
            List<Schema> types = schema.getTypes();
            Reader[] branches = types.stream().map(each -> undeclaredIn(skips.of(each), each)).toArray(Reader[]::new);
            return in -> branches[in.readIndex(branches.length, "branch")].read(in);
        }
        return undeclaredIn(skip, schema);
    }

    private static Reader undeclaredIn(Reader skip, Schema schema) {
        if (schema.getType() == Schema.Type.NULL) {
            return skip;
        }
        return in -> {
            skip.read(in);
            throw new Refused("FIELD_UNDECLARED", "the value has a field that is not in the schema");
        };
    }

    /** The reader, or one that passes over what does not fit to look at what comes behind it. */
    private Reader passing(Reader value, Schema.Field field, String column) {
        if (!policies.passes(column)) {
            return value;
        }
        Reader skip = skips.of(field.schema());
        return in -> {
            int begin = in.position();
            int depth = in.depth();
            try {
                return value.read(in);
            } catch (Refused refused) {
                if (!refused.reason.equals("FIELD_TYPE") && !refused.reason.equals("SCHEMA_MISMATCH")) {
                    throw refused;
                }
                in.back(begin, depth);
                skip.read(in);
                return PASSED;
            }
        };
    }

    /** A value as one of the target's; {@code free} says that null is one of it whatever the table's schema says. */
    private Reader value(Schema writer, Schema declared, DataType target, String column, boolean free) {
        if (declared != null && isSeveral(declared)) {
            return Readers.resolved(writer, declared);
        }
        boolean isUnion = declared != null && declared.getType() == Schema.Type.UNION;
        boolean optional = free || declared == null || isUnion;
        Schema alone = isUnion ? Columns.branches(declared).get(0) : declared;
        if (writer.getType() != Schema.Type.UNION) {
            return one(writer, alone, target, column, optional);
        }
        if (declared == null && isSeveral(writer) && Columns.union(writer) == Columns.Union.MEMBERS) {
            return target.equals(Columns.any(writer)) ? Readers.resolved(writer, writer) : mismatch(writer, target);
        }
        Reader[] branches = writer.getTypes().stream()
                .map(each -> one(each, alone, target, column, optional))
                .toArray(Reader[]::new);
        return in -> branches[in.readIndex(branches.length, "branch")].read(in);
    }

    private static boolean isSeveral(Schema schema) {
        return schema.getType() == Schema.Type.UNION && Columns.branches(schema).size() > 1;
    }

    private Reader one(Schema writer, Schema declared, DataType target, String column, boolean optional) {
        Schema.Type type = writer.getType();
        Schema.Type mine = declared == null ? type : declared.getType();
        if (type == Schema.Type.NULL) {
            return optional ? in -> null : mismatch(writer, target);
        }
        if (declared != null && type == mine && !NamedTypes.agree(writer, declared)) {
            return Readers.resolved(writer, declared);
        }
        if (type == Schema.Type.RECORD && mine == type && target instanceof StructType) {
            return record(writer, declared, (StructType) target, column);
        }
        if (type == Schema.Type.ARRAY && mine == type && target instanceof ArrayType) {
            Schema items = declared == null ? null : declared.getElementType();
            DataType item = ((ArrayType) target).elementType();
            Reader each = inside(writer.getElementType(), items, item, column);
            return Readers.items(each, skips.least(writer.getElementType()));
        }
        if (type == Schema.Type.MAP && mine == type && target instanceof MapType) {
            Schema values = declared == null ? null : declared.getValueType();
            DataType value = ((MapType) target).valueType();
            Reader each = inside(writer.getValueType(), values, value, column);
            return Readers.entries(each, 1 + skips.least(writer.getValueType()));
        }
        return leaf(writer, declared, target, column);
    }

    /** The elements of an array, or the values of a map. */
    private Reader inside(Schema writer, Schema declared, DataType target, String column) {
        String around = path;
        path += "[]";
        Reader each = value(writer, declared, target, column, policies.forgives(column));
        path = around;
        return each;
    }

    private Reader leaf(Schema writer, Schema declared, DataType target, String column) {
        DataType written = typeOf(writer);
        boolean isHeld = written != null && WriterColumns.holds(target, written);
        grows |= !isHeld && written != null && policies.widens(column);
        if (declared != null && target.equals(typeOf(declared))) {
            boolean isSymbol = writer.getType() == Schema.Type.ENUM && declared.getType() == Schema.Type.ENUM;
            if (isSymbol && declared.getEnumDefault() == null && policies.widens(column)) {
                return symbol(writer);
            }
            // As a decimal that has grown takes them.
            boolean isWhole = isHeld && target instanceof DecimalType && !(written instanceof DecimalType);
            return isWhole && policies.widens(column) ? promoted(writer, target) : Readers.resolved(writer, declared);
        }
        if (target.equals(written)) {
            return writer.getType() == Schema.Type.ENUM ? symbol(writer) : Leaves.of(writer, writer);
        }
        return isHeld ? promoted(writer, target) : mismatch(writer, target);
    }

    /** The type of a value without parts; null for others, and for what no table has. */
    private static DataType typeOf(Schema schema) {
        switch (schema.getType()) {
            case RECORD:
            case ARRAY:
            case MAP:
            case UNION:
                return null;
            default:
                return Columns.any(schema);
        }
    }

    private static Reader promoted(Schema writer, DataType target) {
        if (target instanceof DecimalType) {
            DecimalType decimal = (DecimalType) target;
            Reader found = Leaves.decimals(writer, decimal.precision(), decimal.scale());
            return found == null ? mismatch(writer, target) : found;
        }
        Schema.Type type = target.equals(DataTypes.LongType) ? Schema.Type.LONG
                : target.equals(DataTypes.DoubleType) ? Schema.Type.DOUBLE
                : Schema.Type.FLOAT;
        return Leaves.of(writer, Schema.create(type));
    }

    private static Reader symbol(Schema writer) {
        return Readers.symbol(writer.getEnumSymbols().stream().map(UTF8String::fromString).toArray(UTF8String[]::new));
    }

    private static Reader mismatch(Schema writer, DataType target) {
        String message = "the writer's type " + Leaves.named(writer) + " is not " + target.typeName();
        return in -> {
            throw Refused.mismatch(message);
        };
    }
}
