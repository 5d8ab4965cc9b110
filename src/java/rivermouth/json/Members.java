package rivermouth.json;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** Reads objects with declared fields; others are read over. */
final class Members implements Reader {
    private final byte[][] names;
    private final Reader[] readers;
    private final boolean[] nullable;
    private final Names places;
    private final boolean allNullable;
    private final boolean whole;

    /**
     * The reader of a struct.
     *
     * @param exact what shall be kept to its last digit
     * @param whole whether it is the document itself, whose row says behind its columns whether there are other fields,
     *     and whether there was one of its own
     */
    Members(StructType declared, boolean utc, SchemaNode exact, boolean whole) {
        StructField[] fields = declared.fields();
        names = new byte[fields.length][];
        readers = new Reader[fields.length];
        nullable = new boolean[fields.length];
        boolean all = true;
        for (int place = 0; place < fields.length; place++) {
            names[place] = fields[place].name().getBytes(StandardCharsets.UTF_8);
            readers[place] = Readers.of(fields[place].dataType(), utc, SchemaNode.within(exact, fields[place].name()));
            nullable[place] = fields[place].nullable();
            all &= nullable[place];
        }
        places = new Names(names);
        allNullable = all;
        this.whole = whole;
    }

    @Override
    public Object read(Document in) {
        Object[] row = new Object[names.length + (whole ? 2 : 0)];
        boolean[] seen = new boolean[names.length];
        in.take('{');
        in.blanks();
        boolean more = !in.took('}');
        boolean named = false;
        // Documents mostly have their fields in one order.
        int next = 0;
        while (more) {
            int place = place(in, next);
            in.colon();
            if (place < 0) {
                in.others = true;
                in.skip();
            } else {
                if (seen[place]) {
                    throw NotCertain.IT_IS;
                }
                seen[place] = true;
                named = true;
                row[place] = in.tookNull() ? null : readers[place].read(in);
                next = place + 1;
            }
            more = in.more('}');
        }
        if (!allNullable) {
            checkNulls(row);
        }
        if (whole) {
            row[names.length] = in.others;
            row[names.length + 1] = named;
        }
        return new GenericInternalRow(row);
    }

    /** Goes behind a name; its place among the fields, or a negative number if it is none of them. */
    private int place(Document in, int next) {
        if (next < names.length && isName(in, names[next])) {
            return next;
        }
        int begin = in.at;
        if (in.plainName()) {
            return places.place(in.bytes, begin + 1, in.at - 1);
        }
        in.at = begin;
        byte[] name = in.name().getBytes();
        return places.place(name, 0, name.length);
    }

    private static boolean isName(Document in, byte[] name) {
        int begin = in.at;
        int end = begin + name.length + 1;
        boolean is = end < in.bytes.length && in.bytes[begin] == '"' && in.bytes[end] == '"'
                && Arrays.equals(in.bytes, begin + 1, end, name, 0, name.length);
        if (is) {
            in.at = end + 1;
        }
        return is;
    }

    private void checkNulls(Object[] row) {
        for (int place = 0; place < nullable.length; place++) {
            if (row[place] == null && !nullable[place]) {
                throw NotCertain.IT_IS;
            }
        }
    }
}
