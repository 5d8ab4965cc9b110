package rivermouth.json;

import java.io.Serializable;

import org.apache.spark.sql.Column;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

import rivermouth.internals.plan.Calls;
import rivermouth.internals.plan.OnDemand;

/**
 * Documents by a schema: those that are surely JSON objects and surely fit it are read in one pass over their bytes.
 *
 * <p>What is read of them is what Spark's parser and the checks around it make of them. None is refused here: those decide
 * about all others.
 */
public final class FastPath implements Serializable {
    private static final long serialVersionUID = 1;

    private final String declared;
    private final boolean utc;
    private final OnDemand bySpark;
    private final TextPreserver kept;
    private final Undeclared exact;
    private transient volatile Members root;

    /**
     * Of one flow.
     *
     * @param declared the schema, as JSON; its names are those in the documents
     * @param utc whether times without an offset are of UTC
     * @param exact where each digit counts, as {@code decoding/json/undeclared_fields.py} writes it
     * @param bySpark what Spark's parser makes of a value: a struct as of {@code of}, or null if it is refused
     */
    public FastPath(String declared, boolean utc, String exact, Dataset<Row> bySpark) {
        this.declared = declared;
        this.utc = utc;
        this.exact = new Undeclared(exact);
        this.bySpark = new OnDemand(bySpark);
        this.kept = new TextPreserver(declared);
        root();
    }

    /**
     * Of a column with values: a struct of the columns, named c0, c1 and so on, of {@code others}, whether there may be
     * fields that are not declared, and of {@code named}, whether there is one that is; null where a value is null or
     * refused.
     */
    public Column of(String column) {
        StructType row = new StructType();
        for (StructField each : schema().fields()) {
            row = row.add("c" + row.size(), each.dataType().asNullable(), true);
        }
        row = row.add("others", DataTypes.BooleanType, true).add("named", DataTypes.BooleanType, true);
        return Calls.once(this, "read", row, true, column);
    }

    /** For Spark: the columns of a document, or null. */
    public InternalRow read(byte[] value) {
        if (value == null) {
            return null;
        }
        InternalRow found = sure(value);
        if (found != null || !exact.isKept(value)) {
            return found;
        }
        return bySpark.of(kept.document(value));
    }

    /** Whether a value is read here. */
    public boolean isSure(byte[] value) {
        return sure(value) != null;
    }

    private InternalRow sure(byte[] value) {
        try {
            Document in = new Document(value);
            in.blanks();
            InternalRow found = (InternalRow) root().read(in);
            in.blanks();
            return in.isEnd() ? found : null;
        } catch (NotCertain unsure) {
            return null;
        }
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof FastPath && declared.equals(((FastPath) other).declared) && utc == ((FastPath) other).utc
                && exact.equals(((FastPath) other).exact);
    }

    @Override
    public int hashCode() {
        return declared.hashCode();
    }

    /** Plans are printed: nothing of the schema. */
    @Override
    public String toString() {
        return "document";
    }

    private StructType schema() {
        return (StructType) DataType.fromJson(declared);
    }

    private Members root() {
        if (root == null) {
            root = new Members(schema(), utc, exact.root(), true);
        }
        return root;
    }
}
