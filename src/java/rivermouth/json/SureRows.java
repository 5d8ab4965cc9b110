package rivermouth.json;

import java.util.HashSet;
import java.util.Set;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Reads documents in one pass over their bytes, where nobody can doubt what row Spark's {@code from_json} makes of one.
 *
 * <p>Of all other documents there is no row here.
 */
public final class SureRows {
    private static final Set<DataType> TYPES = Set.of(
            DataTypes.BooleanType, DataTypes.ByteType, DataTypes.ShortType, DataTypes.IntegerType, DataTypes.LongType,
            DataTypes.FloatType, DataTypes.DoubleType, DataTypes.StringType, DataTypes.BinaryType, DataTypes.DateType,
            DataTypes.TimestampType, DataTypes.TimestampNTZType);

    /** In the metadata of a field: a value that Spark puts where the document has none. */
    private static final String DEFAULT = "EXISTS_DEFAULT";

    private final Members root;

    /**
     * Of a schema.
     *
     * @param declared of types that {@code takes}
     * @param utc whether times without an offset are of UTC; else they are unsure
     */
    public SureRows(StructType declared, boolean utc) {
        root = new Members((StructType) declared.asNullable(), utc, SchemaNode.OF_SPARK, false);
    }

    /** Whether values of a type are read here. */
    public static boolean takes(DataType type) {
        if (type instanceof StructType) {
            Set<String> names = new HashSet<>();
            for (StructField each : ((StructType) type).fields()) {
                boolean hasDefault = each.metadata().contains(DEFAULT);
                if (hasDefault || !isPlain(each.name()) || !names.add(each.name()) || !takes(each.dataType())) {
                    return false;
                }
            }
            return true;
        }
        if (type instanceof ArrayType) {
            return takes(((ArrayType) type).elementType());
        }
        if (type instanceof MapType) {
            return DataTypes.StringType.equals(((MapType) type).keyType()) && takes(((MapType) type).valueType());
        }
        return type instanceof DecimalType || TYPES.contains(type);
    }

    /** Whether a name is written in documents as it is. */
    private static boolean isPlain(String name) {
        return name.chars().allMatch(each -> each >= ' ' && each != '"' && each != '\\');
    }

    /** The row of a document; null where it is not sure. */
    public InternalRow read(byte[] document) {
        try {
            Document in = new Document(document);
            in.blanks();
            InternalRow found = (InternalRow) root.read(in);
            in.blanks();
            return in.isEnd() ? found : null;
        } catch (NotCertain unsure) {
            return null;
        }
    }
}
