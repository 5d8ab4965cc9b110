package rivermouth.values;

import java.util.List;

import org.apache.spark.sql.types.DataType;

/** How values of one origin are looked at. */
interface View {
    /**
     * The value as a column knows it: a {@code Boolean}, {@code Byte}, {@code Short}, {@code Integer}, {@code Long},
     * {@code BigInteger}, {@code Float}, {@code Double}, {@code BigDecimal}, {@code String}, {@code UTF8String},
     * {@code byte[]}, {@code LocalDate}, {@code LocalDateTime}, {@code Instant}, {@code List}, {@code Map} or something
     * that has fields; anything else fits no column. Null for none.
     */
    Object plain(Object value, DataType declared);

    /** Whether what is less than a microsecond is cut off of times; else they are refused. */
    default boolean truncatesTimes() {
        return false;
    }

    /** The fields of a plain value; null if it has none. */
    Fields fields(Object value);

    /** The fields of one row. */
    interface Fields {
        /** Whether the row knows a field of that name, be it null. */
        boolean has(String name);

        /** The names of all fields, where they are known. */
        default Iterable<String> names() {
            return List.of();
        }

        /** Its value, or null. */
        Object get(String name);
    }

    /** A value that fits no column, and knows what it is called. */
    interface Said {
        /** What it is, in words; nothing of itself. */
        String words();
    }
}
