package rivermouth.avro;

import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Set;

import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

import rivermouth.internals.plan.Calls;

/** The Protobuf schemas of those who wrote values in Confluent's framing, for who reads them outside of the JVM. */
public final class Writers implements Serializable {
    private static final long serialVersionUID = 1;

    private static final StructType ANSWER =
            new StructType().add("descriptors", DataTypes.BinaryType).add("why", DataTypes.StringType);
    private static final int HEADER = 5;

    private final Registry registry;
    private final Set<Integer> known;

    /**
     * Asks nothing yet.
     *
     * @param registry where schemas are found by their ids
     * @param known ids whose schemas the reader has
     */
    public Writers(Registry registry, List<Integer> known) {
        this.registry = registry;
        this.known = Set.copyOf(known);
        // A new start, for example a replay, needs to know what is there now.
        registry.lookAgain();
    }

    /**
     * Of a column with values, never null: {@code descriptors}, a {@code FileDescriptorSet}; or {@code why} there is
     * none. Both are null where the value names no id, and of ids that are known.
     */
    public Column over(String column) {
        return Calls.once(this, "asked", ANSWER, false, column);
    }

    /** A row for Spark. */
    public InternalRow asked(byte[] value) {
        Object[] answer = new Object[ANSWER.length()];
        if (value != null && value.length >= HEADER && value[0] == 0) {
            int id = ByteBuffer.wrap(value).getInt(1);
            try {
                answer[0] = known.contains(id) ? null : registry.descriptors(SchemaId.of(id));
            } catch (Refused refused) {
                answer[1] = UTF8String.fromString(refused.getMessage());
            }
        }
        return new GenericInternalRow(answer);
    }

    /**
     * The schema that has an id: a {@code FileDescriptorSet}.
     *
     * @throws RegistryFailure the registry does not say
     * @throws IllegalArgumentException it has no such schema
     */
    public byte[] descriptors(int id) {
        try {
            return registry.descriptors(SchemaId.of(id));
        } catch (Refused refused) {
            throw new IllegalArgumentException(refused.getMessage());
        }
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Writers && key().equals(((Writers) other).key());
    }

    @Override
    public int hashCode() {
        return key().hashCode();
    }

    /** Plans are printed: nothing of the registry. */
    @Override
    public String toString() {
        return "writers";
    }

    private List<Object> key() {
        return List.of(registry, known);
    }
}
