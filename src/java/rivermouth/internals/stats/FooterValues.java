package rivermouth.internals.stats;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.time.temporal.ChronoUnit;
import java.util.Arrays;
import java.util.List;

import com.fasterxml.jackson.databind.node.DecimalNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.parquet.io.api.Binary;
import org.apache.parquet.schema.LogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.StringLogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.TimeUnit;
import org.apache.parquet.schema.LogicalTypeAnnotation.TimestampLogicalTypeAnnotation;
import org.apache.parquet.schema.PrimitiveType;
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName;
import org.apache.spark.sql.delta.stats.StatisticsCollection$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

import rivermouth.types.Limits;

/** Values of footers, by the types of their columns: how they are compared, and how Delta writes them. */
final class FooterValues {
    private static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern("uuuu-MM-dd'T'HH:mm:ss.SSS");
    private static final List<DataType> WHOLE =
            Arrays.asList(DataTypes.ByteType, DataTypes.ShortType, DataTypes.IntegerType, DataTypes.LongType);
    private static final List<DataType> TIMES = Arrays.asList(DataTypes.TimestampType, DataTypes.TimestampNTZType);
    private static final List<DataType> REAL = Arrays.asList(DataTypes.FloatType, DataTypes.DoubleType);
    // Delta counts their nulls, and nobody skips by their values.
    private static final List<DataType> COUNTED = Arrays.asList(DataTypes.BooleanType, DataTypes.BinaryType);
    // Days and microseconds since 1970 of the years 1583 to 9999: no change of calendar, and four digits.
    private static final long FIRST_DAY = LocalDate.of(1583, 1, 1).toEpochDay();
    private static final long LAST_DAY = Limits.LAST_DAY;
    private static final long DAY_US = 86_400_000_000L;

    private FooterValues() {
    }

    /** Whether footers tell all that Delta's statistics hold of a column of this type. */
    static boolean tell(DataType type) {
        if (type instanceof StructType) {
            return Arrays.stream(((StructType) type).fields()).allMatch(field -> tell(field.dataType()));
        }
        return COUNTED.contains(type) || isBounded(type);
    }

    /** Whether Delta's statistics have the least and the greatest value of such a column, or of a field in it. */
    static boolean isBounded(DataType type) {
        if (type instanceof StructType) {
            return Arrays.stream(((StructType) type).fields()).anyMatch(field -> isBounded(field.dataType()));
        }
        return WHOLE.contains(type) || TIMES.contains(type) || REAL.contains(type) || type.equals(DataTypes.DateType)
                || type.equals(DataTypes.StringType) || type instanceof DecimalType;
    }

    /** What a footer has as a bound, to be compared; null where a session wrote the column in another way. */
    @SuppressWarnings("unchecked")
    static Comparable<Object> read(Object bound, PrimitiveType written, DataType type) {
        return (Comparable<Object>) (Object) value(bound, written, type);
    }

    private static Comparable<?> value(Object bound, PrimitiveType written, DataType type) {
        PrimitiveTypeName name = written.getPrimitiveTypeName();
        LogicalTypeAnnotation meaning = written.getLogicalTypeAnnotation();
        boolean whole = name == PrimitiveTypeName.INT32 || name == PrimitiveTypeName.INT64;
        if (type instanceof DecimalType) {
            int scale = ((DecimalType) type).scale();
            return bound instanceof Binary
                    ? new BigDecimal(new BigInteger(((Binary) bound).getBytes()), scale)
                    : BigDecimal.valueOf(((Number) bound).longValue(), scale);
        }
        if (type.equals(DataTypes.StringType)) {
            return meaning instanceof StringLogicalTypeAnnotation
                    ? UTF8String.fromBytes(((Binary) bound).getBytes())
                    : null;
        }
        if (REAL.contains(type)) {
            // Parquet calls the least zero -0.0.
            double real = ((Number) bound).doubleValue();
            return real == 0 ? Double.valueOf(0) : Double.valueOf(real);
        }
        boolean isRead = whole && (!TIMES.contains(type) || meaning instanceof TimestampLogicalTypeAnnotation
                && ((TimestampLogicalTypeAnnotation) meaning).getUnit() == TimeUnit.MICROS);
        return isRead ? (Long) ((Number) bound).longValue() : null;
    }

    /** A bound as Delta writes it; left out where it has no writing, which only means that nobody can skip by it. */
    static void put(ObjectNode values, String name, DataType type, Object bound, Prefix prefix) {
        if (type instanceof DecimalType) {
            // As a node of its own: another one would lose the zeros at its end.
            values.set(name, DecimalNode.valueOf((BigDecimal) bound));
        } else if (type.equals(DataTypes.StringType)) {
            String kept = prefix.of(new String(((UTF8String) bound).getBytes(), StandardCharsets.UTF_8));
            if (kept != null) {
                values.put(name, kept);
            }
        } else if (REAL.contains(type)) {
            putReal(values, name, type, (Double) bound);
        } else if (type.equals(DataTypes.DateType)) {
            long day = (Long) bound;
            if (day >= FIRST_DAY && day <= LAST_DAY) {
                values.put(name, LocalDate.ofEpochDay(day).toString());
            }
        } else if (TIMES.contains(type)) {
            long time = (Long) bound;
            long day = Math.floorDiv(time, DAY_US);
            if (day >= FIRST_DAY && day <= LAST_DAY) {
                String zone = type.equals(DataTypes.TimestampType) ? "Z" : "";
                values.put(name, TIME.format(Instant.EPOCH.plus(time, ChronoUnit.MICROS).atOffset(ZoneOffset.UTC)) + zone);
            }
        } else {
            values.put(name, (Long) bound);
        }
    }

    private static void putReal(ObjectNode values, String name, DataType type, double real) {
        if (Double.isInfinite(real)) {
            values.put(name, Double.toString(real));
        } else if (type.equals(DataTypes.FloatType)) {
            values.put(name, (float) real);
        } else {
            values.put(name, real);
        }
    }

    /** What Delta keeps of a text; null for one that nothing shorter can replace. */
    interface Prefix {
        String of(String text);

        /** Of the least text. */
        static Prefix least(int length) {
            return text -> text.codePointCount(0, text.length()) <= length
                    ? text
                    : text.substring(0, text.offsetByCodePoints(0, length));
        }

        /** Of the greatest text: something that is no less than the whole. */
        static Prefix greatest(int length) {
            return text -> StatisticsCollection$.MODULE$.truncateMaxStringAgg(length, text);
        }
    }
}
