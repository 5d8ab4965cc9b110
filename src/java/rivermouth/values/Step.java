package rivermouth.values;

import java.io.Serializable;
import java.util.List;

import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

import rivermouth.internals.plan.Calls;

/** What is made of each value, or why it is refused. Spark sends this object to the tasks as part of a plan. */
public abstract class Step implements Serializable {
    private static final long serialVersionUID = 1;
    private static final int PARTS = 4;

    /** What Spark has of the value afterwards; never null. */
    abstract Object of(byte[] value);

    /** The type of that. */
    abstract DataType type();

    /** All that decides what is made of a value. */
    abstract List<Object> key();

    /**
     * Of a column with values, a struct that is never null: {@code made}, null where the value is null or refused;
     * {@code reason}, {@code field} and {@code message}, null where it is not refused.
     */
    public final Column over(String column) {
        StructType row = new StructType()
                .add("made", type())
                .add("reason", DataTypes.StringType)
                .add("field", DataTypes.StringType)
                .add("message", DataTypes.StringType);
        return Calls.once(this, "read", row, false, column);
    }

    /** A row for Spark, as {@code over} says. */
    public final InternalRow read(byte[] value) {
        Object[] row = new Object[PARTS];
        if (value != null) {
            try {
                row[0] = of(value);
            } catch (Refused refused) {
                row[1] = UTF8String.fromString(refused.reason);
                row[2] = UTF8String.fromString(refused.field);
                row[PARTS - 1] = UTF8String.fromString(refused.getMessage());
            }
        }
        return new GenericInternalRow(row);
    }

    @Override
    public final boolean equals(Object other) {
        return other != null && getClass() == other.getClass() && key().equals(((Step) other).key());
    }

    @Override
    public final int hashCode() {
        return key().hashCode();
    }

    /** Plans are printed: nothing of a flow's settings. */
    @Override
    public final String toString() {
        return getClass().getSimpleName();
    }

    /** Makes sure that bytes are UTF-8; text that is all ASCII is not looked at twice. */
    static void checkUtf8(byte[] value) {
        for (byte each : value) {
            if (each < 0) {
                if (!UTF8String.fromBytes(value).isValid()) {
                    throw new Refused("INVALID_UTF8", "the value is not valid UTF-8");
                }
                return;
            }
        }
    }
}
