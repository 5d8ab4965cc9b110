package rivermouth.avro;

import java.nio.ByteBuffer;
import java.util.UUID;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * What a record says of the schema that it was written with: a number before it, or in a header a number or a GUID, as
 * Confluent's serializers write them. Registries know both.
 */
final class SchemaId {
    private static final int NUMBER_BYTES = 5;
    private static final int GUID_BYTES = 17;
    private static final String GUIDS = "/schemas/guids/";

    private final String path;
    private final String schema;
    private final String words;

    private SchemaId(String path, String schema, String words) {
        this.path = path;
        this.schema = schema;
        this.words = words;
    }

    static SchemaId of(int number) {
        return new SchemaId("/schemas/ids/" + number, "schema " + number, "the id " + number);
    }

    /** The id at the begin of a value; null if there is none. */
    static SchemaId before(byte[] value) {
        return value.length < NUMBER_BYTES || value[0] != 0 ? null : of(ByteBuffer.wrap(value).getInt(1));
    }

    /** The id that a header of that name has; null if there is none. */
    static SchemaId in(byte[] header, String name) {
        if (header.length >= GUID_BYTES && header[0] == 1) {
            ByteBuffer bytes = ByteBuffer.wrap(header, 1, GUID_BYTES - 1);
            UUID guid = new UUID(bytes.getLong(), bytes.getLong());
            String words = "the GUID " + guid + " of the header " + name;
            return new SchemaId(GUIDS + guid, "the schema of " + guid, words);
        }
        return before(header);
    }

    /** The value of the last header of a name among those of a record, as Spark has them; null if there is none. */
    static byte[] header(ArrayData headers, String name) {
        if (headers.numElements() == 0) {
            return null;
        }
        UTF8String wanted = UTF8String.fromString(name);
        for (int place = headers.numElements() - 1; place >= 0; place--) {
            InternalRow header = headers.getStruct(place, 2);
            if (wanted.equals(header.getUTF8String(0))) {
                return header.getBinary(1);
            }
        }
        return null;
    }

    /** Where a registry has the schema. */
    String path() {
        return path;
    }

    /** Whether it is a GUID; older registries have no path for them. */
    boolean isGuid() {
        return path.startsWith(GUIDS);
    }

    /** The schema that has it, as messages name that. */
    String schema() {
        return schema;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof SchemaId && path.equals(((SchemaId) other).path);
    }

    @Override
    public int hashCode() {
        return path.hashCode();
    }

    /** As messages name it. */
    @Override
    public String toString() {
        return words;
    }
}
