package rivermouth.values;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import org.apache.avro.Conversion;
import org.apache.avro.Conversions;
import org.apache.avro.LogicalType;
import org.apache.avro.Schema;
import org.apache.avro.data.TimeConversions;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericEnumSymbol;
import org.apache.avro.generic.GenericFixed;
import org.apache.avro.generic.IndexedRecord;
import org.apache.avro.util.Utf8;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.types.UTF8String;

/** A value in one of Avro's records, and its schema, which says what a number or bytes stand for. */
final class AvroValue {
    private static final GenericData MODEL = new GenericData();

    static {
        MODEL.addLogicalTypeConversion(new Conversions.DecimalConversion());
        MODEL.addLogicalTypeConversion(new TimeConversions.DateConversion());
        MODEL.addLogicalTypeConversion(new TimeConversions.TimestampMillisConversion());
        MODEL.addLogicalTypeConversion(new TimeConversions.TimestampMicrosConversion());
        MODEL.addLogicalTypeConversion(new TimeConversions.LocalTimestampMillisConversion());
        MODEL.addLogicalTypeConversion(new TimeConversions.LocalTimestampMicrosConversion());
    }

    private final Object value;
    private final Schema schema;

    private AvroValue(Object value, Schema schema) {
        this.value = value;
        this.schema = schema;
    }

    static View.Fields fields(IndexedRecord row) {
        Schema schema = row.getSchema();
        return new View.Fields() {
            @Override
            public boolean has(String name) {
                return schema.getField(name) != null;
            }

            @Override
            public Object get(String name) {
                Schema.Field field = schema.getField(name);
                return field == null ? null : of(row.get(field.pos()), field.schema());
            }
        };
    }

    /** The text of one of Avro's own classes for such; null for other objects. */
    static Object text(Object value) {
        if (value instanceof Utf8) {
            Utf8 text = (Utf8) value;
            UTF8String found = UTF8String.fromBytes(text.getBytes().clone(), 0, text.getByteLength());
            if (!found.isValid()) {
                throw new Refused("INVALID_UTF8", "a string is not valid UTF-8");
            }
            return found;
        }
        return value instanceof GenericEnumSymbol ? value.toString() : null;
    }

    Object plain(DataType declared) {
        Schema branch = schema.getType() == Schema.Type.UNION
                ? schema.getTypes().get(MODEL.resolveUnion(schema, value))
                : schema;
        if (value instanceof List && branch.getType() == Schema.Type.ARRAY) {
            List<Object> items = new ArrayList<>();
            ((List<?>) value).forEach(each -> items.add(of(each, branch.getElementType())));
            return items;
        }
        if (value instanceof Map && branch.getType() == Schema.Type.MAP) {
            Map<Object, Object> entries = new LinkedHashMap<>();
            ((Map<?, ?>) value).forEach((key, each) -> entries.put(key, of(each, branch.getValueType())));
            return entries;
        }
        Object found = isMeant(declared) ? converted(branch) : value;
        return found instanceof GenericFixed ? ((GenericFixed) found).bytes() : found;
    }

    private static Object of(Object value, Schema schema) {
        return value == null ? null : new AvroValue(value, schema);
    }

    /** Whether a column of the type is read from what a number or bytes stand for. */
    private static boolean isMeant(DataType declared) {
        return declared instanceof DecimalType
                || declared.equals(DataTypes.DateType)
                || declared.equals(DataTypes.TimestampType)
                || declared.equals(DataTypes.TimestampNTZType);
    }

    /** Readers of specific records have converted it already. */
    private Object converted(Schema branch) {
        LogicalType logical = branch.getLogicalType();
        Conversion<?> conversion = logical == null ? null : MODEL.getConversionFor(logical);
        if (conversion == null || conversion.getConvertedType().isInstance(value)) {
            return value;
        }
        return Conversions.convertToLogicalType(value, branch, logical, conversion);
    }
}
