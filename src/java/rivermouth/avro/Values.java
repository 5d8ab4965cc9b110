package rivermouth.avro;

import java.io.Serializable;
import java.util.List;

import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

import rivermouth.internals.plan.Calls;

/** What a decoder reads, as a column without verdicts: a value that is refused fails its task, or has nulls alone. */
public final class Values implements Serializable {
    private static final long serialVersionUID = 1;

    private final Decoder decoder;
    private final boolean failsOnRefused;
    private final boolean failsOnUndeclared;

    /**
     * Reads nothing yet.
     *
     * @param failsOnRefused whether a value that cannot be read fails its task; else all of its columns are null
     * @param failsOnUndeclared whether a record with a field that the schema does not have fails its task
     */
    public Values(Decoder decoder, boolean failsOnRefused, boolean failsOnUndeclared) {
        this.decoder = decoder;
        this.failsOnRefused = failsOnRefused;
        this.failsOnUndeclared = failsOnUndeclared;
    }

    /** Of a column of bytes: a struct of the schema's columns, or of a schema that is no record its one value. */
    public Column of(Column bytes) {
        return Calls.once(this, "value", type(), true, bytes);
    }

    /** A value for Spark; null for null. */
    public Object value(byte[] bytes) {
        if (bytes == null) {
            return null;
        }
        InternalRow found = decoder.decode(bytes);
        if (failsOnRefused && !found.isNullAt(Decoder.VERDICT)) {
            InternalRow verdict = found.getStruct(Decoder.VERDICT, Decoder.WHY.length());
            String reason = verdict.getString(Decoder.WHY.fieldIndex("reason"));
            throw new ValueFailure(reason + ": " + verdict.getString(Decoder.WHY.fieldIndex("message")));
        }
        ArrayData undeclared = found.getArray(Decoder.UNDECLARED);
        if (failsOnUndeclared && undeclared.numElements() > 0) {
            String field = undeclared.getUTF8String(0).toString();
            throw new ValueFailure("UNKNOWN_FIELD: the record has the field " + field
                    + ", and the schema of this query does not; a query that starts now reads the newest one");
        }
        StructType columns = decoder.columns();
        InternalRow row = found.getStruct(Decoder.DATA, columns.length());
        return decoder.isOfRecords() ? row : row.get(0, type());
    }

    private DataType type() {
        StructType columns = decoder.columns();
        return decoder.isOfRecords() ? columns : columns.fields()[0].dataType();
    }

    private List<Object> key() {
        return List.of(decoder, failsOnRefused, failsOnUndeclared);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Values && key().equals(((Values) other).key());
    }

    @Override
    public int hashCode() {
        return key().hashCode();
    }

    /** As of a decoder: nothing of the schemas, and nothing of the registry. */
    @Override
    public String toString() {
        return decoder.toString();
    }

    /** A value that cannot be read. */
    static final class ValueFailure extends RuntimeException {
        private static final long serialVersionUID = 1;

        ValueFailure(String message) {
            super("from_avro: " + message);
        }
    }
}
