package rivermouth.avro;

import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;

import org.apache.avro.Schema;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * What a writer's schema has, as columns: those of the table as the table would have to have them to take all values of
 * the writer, and the writer's own. What no column can be, and what cannot grow, is left out or stays as it is.
 */
final class WriterColumns {
    private static final int INT_DIGITS = 10;
    // As Delta counts them.
    private static final int LONG_DIGITS = 20;

    /** As many as a schema may have at all. Records that each hold others twice have more than can be counted. */
    private static final int MOST_FIELDS = 5000;

    private final Set<String> around = new HashSet<>();
    /** Of the new column that is being made, the fields so far; none where there is no such. */
    private int fields;

    private WriterColumns() {}

    /** The columns of a record whose fields have the table's names; what it has as its own by another name adds nothing. */
    static StructType of(Schema writer, Schema declared, StructType target) {
        boolean isRecord = writer.getType() == Schema.Type.RECORD;
        StructType found = isRecord ? new WriterColumns().record(writer, declared, target) : null;
        return found == null ? new StructType() : found;
    }

    /** Whether a column can be made of a field that the table lacks. */
    static boolean isColumn(Schema schema) {
        return new WriterColumns().made(schema) != null;
    }

    /** Whether a column holds all values of a type, or at least those that are exactly one of its own. */
    static boolean holds(DataType column, DataType written) {
        if (column.equals(written)) {
            return true;
        }
        if (column instanceof DecimalType) {
            return joined(column, written).equals(column);
        }
        boolean isInt = written.equals(DataTypes.IntegerType);
        boolean isWhole = isInt || written.equals(DataTypes.LongType);
        return isInt && column.equals(DataTypes.LongType)
                || isWhole && column.equals(DataTypes.FloatType)
                || (isWhole || written.equals(DataTypes.FloatType)) && column.equals(DataTypes.DoubleType);
    }

    /** The type of a field that no column has; null if none can be made of it. */
    private DataType made(Schema schema) {
        fields++;
        if (fields > MOST_FIELDS) {
            throw new TooLarge();
        }
        if (fields > 1) {
            return type(schema, null, null);
        }
        Set<String> before = Set.copyOf(around);
        try {
            return type(schema, null, null);
        } catch (TooLarge large) {
            around.retainAll(before);
            return null;
        } finally {
            fields = 0;
        }
    }

    /** Null if no column can be made of it; {@code declared} is the table's type as it was declared, null without one. */
    private DataType type(Schema schema, Schema declared, DataType target) {
        if (schema.getType() == Schema.Type.UNION) {
            return union(schema, declared, target);
        }
        Schema mine = alone(declared);
        if (mine != null && mine.getType() == schema.getType() && !NamedTypes.agree(schema, mine)) {
            return target;
        }
        switch (schema.getType()) {
            case RECORD:
                if (target != null && !(target instanceof StructType)) {
                    return target;
                }
                return record(schema, mine, (StructType) target);
            case ARRAY:
                if (target != null && !(target instanceof ArrayType)) {
                    return target;
                }
                DataType items = target == null ? null : ((ArrayType) target).elementType();
                Schema each = mine != null && mine.getType() == Schema.Type.ARRAY ? mine.getElementType() : null;
                DataType item = type(schema.getElementType(), each, items);
                return item == null ? target : DataTypes.createArrayType(item, true);
            case MAP:
                if (target != null && !(target instanceof MapType)) {
                    return target;
                }
                DataType values = target == null ? null : ((MapType) target).valueType();
                Schema entry = mine != null && mine.getType() == Schema.Type.MAP ? mine.getValueType() : null;
                DataType value = type(schema.getValueType(), entry, values);
                return value == null ? target : DataTypes.createMapType(DataTypes.StringType, value, true);
            default:
                return leaf(schema, target);
        }
    }

    /** A type without the null of its union; null for several types, as no column grows from these. */
    private static Schema alone(Schema declared) {
        if (declared == null || declared.getType() != Schema.Type.UNION) {
            return declared;
        }
        List<Schema> branches = Columns.branches(declared);
        return branches.size() == 1 ? branches.get(0) : null;
    }

    private StructType record(Schema schema, Schema declared, StructType target) {
        // What holds itself ends here.
        if (!around.add(schema.getFullName())) {
            return target;
        }
        Map<String, DataType> known = new HashMap<>();
        if (target != null) {
            for (StructField each : target.fields()) {
                known.put(Policies.field(each), each.dataType());
            }
        }
        boolean isWhole = around.size() == 1;
        Set<String> names = new HashSet<>();
        StructType found = new StructType();
        for (Schema.Field field : schema.getFields()) {
            DataType column = known.get(field.name());
            boolean isRecord = declared != null && declared.getType() == Schema.Type.RECORD;
            Schema.Field mine = isRecord ? declared.getField(field.name()) : null;
            Schema before = mine == null ? null : mine.schema();
            DataType type = column == null ? made(field.schema()) : type(field.schema(), before, column);
            // A column of the table can get another name, a field within one cannot.
            boolean hasName = names.add(field.name().toLowerCase(Locale.ROOT)) || isWhole;
            if (type != null && hasName) {
                found = found.add(new StructField(field.name(), type, true, Metadata.empty()));
            }
        }
        around.remove(schema.getFullName());
        return found.length() == 0 ? target : found;
    }

    /** Several types in one union are one column, and stay what they are. */
    private DataType union(Schema schema, Schema declared, DataType target) {
        List<Schema> branches = Columns.branches(schema);
        if (branches.isEmpty()) {
            return target;
        }
        switch (Columns.union(schema)) {
            case ALONE:
                return type(branches.get(0), declared, target);
            case INTEGERS:
                return joined(target, DataTypes.LongType);
            case FLOATS:
                return joined(target, DataTypes.DoubleType);
            default:
                if (target != null) {
                    return target;
                }
                StructType members = new StructType();
                for (int place = 0; place < branches.size(); place++) {
                    DataType member = type(branches.get(place), null, null);
                    if (member == null) {
                        return null;
                    }
                    members = members.add("member" + place, member, true);
                }
                return members;
        }
    }

    private static DataType leaf(Schema schema, DataType target) {
        DataType written = Columns.any(schema);
        return written == null ? target : joined(target, written);
    }

    /** The least type of numbers that holds those of both; the writer's own where there is none. */
    private static DataType joined(DataType target, DataType written) {
        boolean isWhole = target != null
                && (target.equals(DataTypes.IntegerType) || target.equals(DataTypes.LongType));
        if (isWhole && written.equals(DataTypes.FloatType)) {
            return DataTypes.DoubleType;
        }
        boolean isDecimal = target instanceof DecimalType || written instanceof DecimalType;
        int[] mine = digits(target);
        int[] others = digits(written);
        if (!isDecimal || mine == null || others == null) {
            return written;
        }
        int scale = Math.max(mine[1], others[1]);
        int precision = Math.max(mine[0] - mine[1], others[0] - others[1]) + scale;
        return precision > DecimalType.MAX_PRECISION() ? written : DataTypes.createDecimalType(precision, scale);
    }

    /** Precision and scale. */
    private static int[] digits(DataType type) {
        if (type instanceof DecimalType) {
            return new int[] {((DecimalType) type).precision(), ((DecimalType) type).scale()};
        }
        if (DataTypes.IntegerType.equals(type)) {
            return new int[] {INT_DIGITS, 0};
        }
        return DataTypes.LongType.equals(type) ? new int[] {LONG_DIGITS, 0} : null;
    }

    /** No table has room for it. */
    private static final class TooLarge extends RuntimeException {
        private static final long serialVersionUID = 1;
    }
}
