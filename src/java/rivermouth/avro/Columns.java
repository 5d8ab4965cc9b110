package rivermouth.avro;

import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;

import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructType;

/** What the types of an Avro schema are in a table. */
final class Columns {
    private static final Set<Schema.Type> ONE_VALUE = EnumSet.of(
            Schema.Type.BOOLEAN,
            Schema.Type.INT,
            Schema.Type.LONG,
            Schema.Type.FLOAT,
            Schema.Type.DOUBLE,
            Schema.Type.STRING,
            Schema.Type.BYTES,
            Schema.Type.ENUM,
            Schema.Type.FIXED);

    private Columns() {}

    /** How the branches of a union share a column. */
    enum Union {
        /** One type, or null. */
        ALONE,
        /** int and long: a BIGINT. */
        INTEGERS,
        /** float and double: a DOUBLE. */
        FLOATS,
        /** A struct with a field for each branch. */
        MEMBERS
    }

    /**
     * The columns of a record, all nullable.
     *
     * @throws IllegalArgumentException a table cannot have them; the text says why
     */
    static StructType of(Schema schema) {
        if (schema.getType() != Schema.Type.RECORD) {
            throw new IllegalArgumentException("the schema is of type " + schema.getType().getName()
                    + ": a table takes the fields of a record");
        }
        return record(schema, "", new HashSet<>());
    }

    /**
     * What a key of that schema is: of a record a struct of its columns, else one value.
     *
     * @throws IllegalArgumentException no key is that; the text says why
     */
    static DataType ofKey(Schema schema) {
        if (schema.getType() == Schema.Type.RECORD) {
            return of(schema);
        }
        boolean isUnion = schema.getType() == Schema.Type.UNION;
        Schema one = isUnion && branches(schema).size() == 1 ? branches(schema).get(0) : schema;
        return ONE_VALUE.contains(one.getType()) ? leaf(one, "kafka_key") : of(schema);
    }

    /** The columns of rows that are read by that schema: where it is no record, one with the value. */
    static StructType ofRow(Schema schema) {
        DataType key = ofKey(schema);
        return key instanceof StructType ? (StructType) key : new StructType().add("value", key, true);
    }

    /** The column of any value; null if a table cannot have it. */
    static DataType any(Schema schema) {
        try {
            return type(schema, "", new HashSet<>());
        } catch (IllegalArgumentException impossible) {
            return null;
        }
    }

    static List<Schema> branches(Schema union) {
        return union.getTypes().stream().filter(each -> each.getType() != Schema.Type.NULL).collect(Collectors.toList());
    }

    static Union union(Schema schema) {
        List<Schema> branches = branches(schema);
        if (branches.size() == 1) {
            return Union.ALONE;
        }
        if (branches.stream().allMatch(each -> isPlain(each, Schema.Type.INT, Schema.Type.LONG))) {
            return Union.INTEGERS;
        }
        boolean floats = branches.stream().allMatch(each -> isPlain(each, Schema.Type.FLOAT, Schema.Type.DOUBLE));
        return floats ? Union.FLOATS : Union.MEMBERS;
    }

    /** The name of a schema's logical type, if it has one that is valid; else an empty text. */
    static String logical(Schema schema) {
        return schema.getLogicalType() == null ? "" : schema.getLogicalType().getName();
    }

    private static boolean isPlain(Schema schema, Schema.Type one, Schema.Type other) {
        return (schema.getType() == one || schema.getType() == other) && logical(schema).isEmpty();
    }

    private static StructType record(Schema schema, String path, Set<String> around) {
        String where = path.isEmpty() ? "the record" : "field " + path;
        if (schema.getFields().isEmpty()) {
            throw new IllegalArgumentException(where + " has no fields");
        }
        if (!around.add(schema.getFullName())) {
            throw new IllegalArgumentException(where + " holds itself, and no column does");
        }
        StructType columns = new StructType();
        Map<String, String> seen = new HashMap<>();
        for (Schema.Field field : schema.getFields()) {
            String twin = seen.put(field.name().toLowerCase(Locale.ROOT), field.name());
            if (twin != null) {
                throw new IllegalArgumentException(
                        "fields '" + twin + "' and '" + field.name() + "' are the same to Spark and Delta");
            }
            String name = path.isEmpty() ? field.name() : path + "." + field.name();
            columns = columns.add(field.name(), type(field.schema(), name, around), true);
        }
        around.remove(schema.getFullName());
        return columns;
    }

    private static DataType type(Schema schema, String path, Set<String> around) {
        switch (schema.getType()) {
            case RECORD:
                return record(schema, path, around);
            case ARRAY:
                return DataTypes.createArrayType(type(schema.getElementType(), path + "[]", around), true);
            case MAP:
                DataType values = type(schema.getValueType(), path + "[]", around);
                return DataTypes.createMapType(DataTypes.StringType, values, true);
            case UNION:
                return union(schema, path, around);
            default:
                return leaf(schema, path);
        }
    }

    private static DataType union(Schema schema, String path, Set<String> around) {
        List<Schema> branches = branches(schema);
        if (branches.isEmpty()) {
            throw new IllegalArgumentException("field " + path + " has no type but null");
        }
        switch (union(schema)) {
            case ALONE:
                return type(branches.get(0), path, around);
            case INTEGERS:
                return DataTypes.LongType;
            case FLOATS:
                return DataTypes.DoubleType;
            default:
                StructType members = new StructType();
                for (int place = 0; place < branches.size(); place++) {
                    String name = "member" + place;
                    members = members.add(name, type(branches.get(place), path + "." + name, around), true);
                }
                return members;
        }
    }

    private static DataType leaf(Schema schema, String path) {
        switch (schema.getType()) {
            case BOOLEAN:
                return DataTypes.BooleanType;
            case INT:
                return logical(schema).equals("date") ? DataTypes.DateType : DataTypes.IntegerType;
            case LONG:
                switch (logical(schema)) {
                    case "timestamp-millis":
                    case "timestamp-micros":
                        return DataTypes.TimestampType;
                    case "local-timestamp-millis":
                    case "local-timestamp-micros":
                        return DataTypes.TimestampNTZType;
                    default:
                        return DataTypes.LongType;
                }
            case FLOAT:
                return DataTypes.FloatType;
            case DOUBLE:
                return DataTypes.DoubleType;
            case STRING:
            case ENUM:
                return DataTypes.StringType;
            case BYTES:
            case FIXED:
                if (schema.getLogicalType() instanceof LogicalTypes.Decimal) {
                    return decimal((LogicalTypes.Decimal) schema.getLogicalType(), path);
                }
                return logical(schema).equals("uuid") ? DataTypes.StringType : DataTypes.BinaryType;
            default:
                throw new IllegalArgumentException("field " + path + " has no type but null");
        }
    }

    private static DataType decimal(LogicalTypes.Decimal declared, String path) {
        if (declared.getPrecision() > DecimalType.MAX_PRECISION()) {
            throw new IllegalArgumentException("field " + path + " is a decimal of " + declared.getPrecision()
                    + " digits, and a column has at most " + DecimalType.MAX_PRECISION());
        }
        return DataTypes.createDecimalType(declared.getPrecision(), declared.getScale());
    }
}
