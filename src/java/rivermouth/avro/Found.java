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
final class Found {
    private static final int INT_DIGITS = 10;
    // As Delta counts them.
    private static final int LONG_DIGITS = 20;

    /** As many as a schema may have at all. Records that each hold others twice have more than can be counted. */
    private static final int MOST_FIELDS = 5000;

    private final Set<String> around = new HashSet<>();
    /** Of the new column that is being made, the fields so far; none where there is no such. */
    private int fields;

    private Found() {}

    /** The columns of a record whose fields have the table's names. */
    static StructType of(Schema writer, StructType target) {
        StructType found = writer.getType() == Schema.Type.RECORD ? new Found().record(writer, target) : null;
        return found == null ? new StructType() : found;
    }

    /** Whether a column can be made of a field that the table lacks. */
    static boolean isColumn(Schema schema) {
        return new Found().made(schema) != null;
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
            return type(schema, null);
        }
        Set<String> before = Set.copyOf(around);
        try {
            return type(schema, null);
        } catch (TooLarge large) {
            around.retainAll(before);
            return null;
        } finally {
            fields = 0;
        }
    }

    /** Null if no column can be made of it. */
    private DataType type(Schema schema, DataType target) {
        switch (schema.getType()) {
            case UNION:
                return union(schema, target);
            case RECORD:
                if (target != null && !(target instanceof StructType)) {
                    return target;
                }
                return record(schema, (StructType) target);
            case ARRAY:
                if (target != null && !(target instanceof ArrayType)) {
                    return target;
                }
                DataType items = target == null ? null : ((ArrayType) target).elementType();
                DataType item = type(schema.getElementType(), items);
                return item == null ? target : DataTypes.createArrayType(item, true);
            case MAP:
                if (target != null && !(target instanceof MapType)) {
                    return target;
                }
                DataType values = target == null ? null : ((MapType) target).valueType();
                DataType value = type(schema.getValueType(), values);
                return value == null ? target : DataTypes.createMapType(DataTypes.StringType, value, true);
            default:
                return leaf(schema, target);
        }
    }

    private StructType record(Schema schema, StructType target) {
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
            DataType type = column == null ? made(field.schema()) : type(field.schema(), column);
            // A column of the table can get another name, a field within one cannot.
            boolean hasName = names.add(field.name().toLowerCase(Locale.ROOT)) || isWhole;
            if (type != null && hasName) {
                found = found.add(new StructField(field.name(), type, true, Metadata.empty()));
            }
        }
        around.remove(schema.getFullName());
        return found.length() == 0 ? target : found;
    }

    /** Several types beside each other are one column, and stay what they are. */
    private DataType union(Schema schema, DataType target) {
        List<Schema> branches = Columns.branches(schema);
        if (branches.isEmpty()) {
            return target;
        }
        switch (Columns.union(schema)) {
            case ALONE:
                return type(branches.get(0), target);
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
                    DataType member = type(branches.get(place), null);
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
