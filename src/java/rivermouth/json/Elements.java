package rivermouth.json;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;

import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataTypes;

import rivermouth.internals.plan.Calls;

/**
 * The elements of JSON arrays, each as the bytes that it is in its array.
 *
 * <p>This finds only where they begin and end. The reader of an element checks it as if it had been sent alone.
 */
public final class Elements implements Serializable {
    private static final long serialVersionUID = 1;

    /**
     * Of a binary column: an array of the elements. A value that is no array is its own only element. Null where a value is
     * null, or an array that cannot be split into elements.
     */
    public Column of(String column) {
        return Calls.once(this, "split", DataTypes.createArrayType(DataTypes.BinaryType, false), true, column);
    }

    /** As {@code of}; null also where an element is no JSON object, or not one alone: the array is broken as a whole. */
    public Column ofObjects(String column) {
        return Calls.once(this, "splitObjects", DataTypes.createArrayType(DataTypes.BinaryType, false), true, column);
    }

    /** For Spark: the elements of a value that are all JSON objects, or null. */
    public ArrayData splitObjects(byte[] value) {
        ArrayData found = split(value);
        boolean isArray = found != null && isArray(value);
        for (int at = 0; isArray && at < found.numElements(); at++) {
            if (!Undeclared.isObject(found.getBinary(at))) {
                return null;
            }
        }
        return found;
    }

    /** For Spark: the elements of a value, or null. */
    public ArrayData split(byte[] value) {
        if (value == null) {
            return null;
        }
        if (!isArray(value)) {
            return new GenericArrayData(new Object[] {value});
        }
        List<Object> found = new ArrayList<>();
        int end = end(value, blanks(value, 0) + 1, found);
        return end < 0 || blanks(value, end) < value.length ? null : new GenericArrayData(found.toArray());
    }

    private static boolean isArray(byte[] value) {
        int begin = blanks(value, 0);
        return begin < value.length && value[begin] == '[';
    }

    /** Behind the array whose inside begins there; -1 if it does not end, or something is missing between commas. */
    private static int end(byte[] value, int inside, List<Object> found) {
        BitSet objects = new BitSet();
        int depth = 0;
        int begin = inside;
        for (int at = inside; at < value.length; at++) {
            byte each = value[at];
            if (each == '"') {
                at = quote(value, at + 1);
            } else if (each == '{' || each == '[') {
                objects.set(depth++, each == '{');
            } else if (depth > 0 && (each == '}' || each == ']')) {
                if (objects.get(--depth) != (each == '}')) {
                    return -1;
                }
            } else if (each == '}') {
                return -1;
            } else if (depth == 0 && (each == ',' || each == ']')) {
                boolean isLast = each == ']';
                boolean isThere = add(value, begin, at, found);
                if (isLast && (isThere || found.isEmpty())) {
                    return at + 1;
                }
                if (isLast || !isThere) {
                    return -1;
                }
                begin = at + 1;
            }
        }
        return -1;
    }

    /** Whether there is anything but blanks. */
    private static boolean add(byte[] value, int from, int to, List<Object> found) {
        int begin = blanks(value, from);
        int end = to;
        while (end > begin && isBlank(value[end - 1])) {
            end--;
        }
        if (begin >= end) {
            return false;
        }
        found.add(Arrays.copyOfRange(value, begin, end));
        return true;
    }

    /** Where the string ends whose inside begins there: its quote, or the end of the value. */
    private static int quote(byte[] value, int inside) {
        int at = inside;
        while (at < value.length && value[at] != '"') {
            at += value[at] == '\\' ? 2 : 1;
        }
        return at;
    }

    private static int blanks(byte[] value, int from) {
        int at = from;
        while (at < value.length && isBlank(value[at])) {
            at++;
        }
        return at;
    }

    private static boolean isBlank(byte each) {
        return each == ' ' || each == '\n' || each == '\r' || each == '\t';
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Elements;
    }

    @Override
    public int hashCode() {
        return Elements.class.hashCode();
    }

    /** Plans are printed. */
    @Override
    public String toString() {
        return "elements";
    }
}
