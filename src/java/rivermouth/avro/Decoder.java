package rivermouth.avro;

import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

import org.apache.avro.AvroRuntimeException;
import org.apache.avro.Schema;
import org.apache.avro.SchemaNormalization;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

import rivermouth.internals.plan.Calls;

/**
 * Records in Avro's binary encoding as rows of one schema, in whatever framing says who wrote them.
 *
 * <p>Spark sends it to the tasks as part of a plan; what it has found out about writers stays in their process.
 */
public final class Decoder implements Serializable {
    private static final long serialVersionUID = 1;

    static final StructType WHY = new StructType()
            .add("skipped", DataTypes.BooleanType)
            .add("reason", DataTypes.StringType)
            .add("field", DataTypes.StringType)
            .add("message", DataTypes.StringType);
    private static final int SINGLE_OBJECT_HEADER = 10;
    private static final byte SINGLE_OBJECT_FIRST = (byte) 0xc3;
    private static final byte SINGLE_OBJECT_SECOND = 1;
    private static final int CONFLUENT_HEADER = 5;
    // Places in the row that decode makes.
    static final int DATA = 1;
    static final int UNDECLARED = 2;
    static final int VERDICT = 3;
    private static final String FRAMED =
            "it looks like a record behind a zero and the id of a schema, as framing: confluent reads it";
    private static final int MOST_KNOWN = 100;
    private static final Pattern LOGICAL = Pattern.compile("\"(?:logicalType|precision|scale)\":[^,}]*");
    // Each task gets a decoder of its own: what schemas come to is made once for all.
    private static final Map<List<Object>, Known> ALL_KNOWN = new ConcurrentHashMap<>();

    private final String schema;
    private final List<String> writers;
    private final String framing;
    private final Registry registry;
    private final String policies;
    private final List<String> recordNames;
    private final String idHeader;

    private transient volatile Known known;

    /**
     * A decoder of one flow.
     *
     * @param schema that of the table
     * @param framing plain, single_object or confluent
     * @param writers schemas of writers; of plain records the first one, or else {@code schema}, is that of all
     * @param registry where the schemas of writers are found by their ids; null for other framings
     * @param policies what a table that grows has instead of the schema's columns, as {@code Policies} reads it; empty
     *     for one that does not
     * @param recordNames names of the writers' records that are the flow's, with their namespaces or without, and are read
     *     as the table's record; all others are skipped. Empty for those that have the name of the table's record, while
     *     others are refused
     * @param idHeader name of the header that may say by which schema a value was written, instead of the bytes before
     *     it; of the framing confluent. Empty where values come without headers
     * @throws IllegalArgumentException a schema cannot be read, or a table cannot have its columns
     */
    public Decoder(
            String schema,
            String framing,
            List<String> writers,
            Registry registry,
            String policies,
            List<String> recordNames,
            String idHeader) {
        this.schema = schema;
        this.framing = framing;
        this.writers = List.copyOf(writers);
        this.registry = registry;
        this.policies = policies;
        this.recordNames = List.copyOf(recordNames);
        this.idHeader = idHeader;
        known();
        if (registry != null) {
            // A new start, for example a replay, needs to know what is there now.
            registry.lookAgain();
        }
    }

    /** The columns of a schema as Spark's JSON form. */
    public static String columns(String schema) {
        return Columns.of(parsed(schema)).json();
    }

    /** The type of keys of a schema as Spark's JSON form: of a record a struct of its columns, else that of one value. */
    public static String key(String schema) {
        return Columns.ofKey(parsed(schema)).json();
    }

    /**
     * A schema of one text.
     *
     * @throws IllegalArgumentException it cannot be read; the text says why
     */
    static Schema parsed(String text) {
        try {
            return new Schema.Parser().parse(text);
        } catch (AvroRuntimeException error) {
            throw new IllegalArgumentException("it is no Avro schema: " + error.getMessage());
        } catch (RuntimeException | StackOverflowError error) {
            // So Avro says of a type that it does not know.
            throw new IllegalArgumentException("it is no Avro schema: a type in it is not known");
        }
    }

    /**
     * Of a column with values, and one with the headers of their records if these may have ids of schemas: {@code decoded
     * boolean}, {@code data}, a struct of the columns, {@code undeclared}, the paths of the record's fields that no column
     * has, and {@code verdict}, null of a value that was read; never null. A schema that is no record, as keys have it,
     * makes one column.
     */
    public Column decoded(String... columns) {
        DataType row = new StructType()
                .add("decoded", DataTypes.BooleanType, false)
                .add("data", known().columns, false)
                .add("undeclared", DataTypes.createArrayType(DataTypes.StringType, false), false)
                .add("verdict", WHY);
        return Calls.once(this, "decode", row, false, columns);
    }

    /** Of the same columns: {@code reason}, {@code field} and {@code message} why a value is refused, or null. */
    public Column explained(String... columns) {
        return Calls.once(this, "explain", WHY, true, columns);
    }

    /** Of the same columns: whether the table may grow by the schema of the one who wrote a value; never null. */
    public Column growing(String... columns) {
        return Calls.once(this, "grows", DataTypes.BooleanType, false, columns);
    }

    /**
     * The columns that a table can have of a writer's schema, as Spark's JSON form; its own by the names of their fields.
     *
     * @throws RegistryFailure the registry does not say
     * @throws IllegalArgumentException it has no such schema, or none that can be resolved
     */
    public String found(int id) {
        Known state = known();
        try {
            Schema writer = Grown.named(registry.schema(SchemaId.of(id)), state.reader);
            return WriterColumns.of(writer, state.reader, state.policies.columns).json();
        } catch (Refused refused) {
            throw new IllegalArgumentException(refused.getMessage());
        }
    }

    /** The columns that values are read as. */
    StructType columns() {
        return known().columns;
    }

    /** Whether the schema is that of records, and not of single values. */
    boolean isOfRecords() {
        return known().reader.getType() == Schema.Type.RECORD;
    }

    /** Whether the table may grow by the schema of who wrote the value. */
    public boolean grows(byte[] value) {
        return grows(value, null);
    }

    /** The same of a record with headers; the engine looks for schemas by the ids before values alone. */
    public boolean grows(byte[] value, ArrayData headers) {
        if (value == null || header(headers) != null || SchemaId.before(value) == null) {
            return false;
        }
        try {
            return known().writer(SchemaId.before(value), registry).grows;
        } catch (Refused refused) {
            return false;
        }
    }

    /** A row for Spark: its columns, or why it is refused or left out. */
    public InternalRow decode(byte[] value) {
        return decode(value, null);
    }

    /** The same of a record with headers. */
    public InternalRow decode(byte[] value, ArrayData headers) {
        Known state = known();
        Object row = state.blank;
        InternalRow verdict = null;
        boolean decoded = true;
        ArrayData undeclared = Grown.NO_NAMES;
        if (value != null) {
            try {
                byte[] header = header(headers);
                Grown.Made writer = writer(value, header, state);
                if (writer.isSkipped) {
                    verdict = told(true, null);
                } else {
                    row = read(value, header == null ? begin() : 0, writer);
                    undeclared = writer.undeclared;
                }
            } catch (Refused refused) {
                decoded = false;
                verdict = told(false, looksFramed(value, state) ? refused.because(FRAMED) : refused);
            }
        }
        return new GenericInternalRow(new Object[] {decoded, row, undeclared, verdict});
    }

    /** A row for Spark: why the value is refused; null for one that is not. */
    public InternalRow explain(byte[] value) {
        return explain(value, null);
    }

    /** The same of a record with headers. */
    public InternalRow explain(byte[] value, ArrayData headers) {
        return decode(value, headers).getStruct(VERDICT, WHY.length());
    }

    /** Whether a value that is not read as a plain record is one in Confluent's framing. */
    private boolean looksFramed(byte[] value, Known state) {
        if (!framing.equals("plain") || SchemaId.before(value) == null) {
            return false;
        }
        try {
            read(value, CONFLUENT_HEADER, state.only);
            return true;
        } catch (Refused refused) {
            return false;
        }
    }

    private static InternalRow told(boolean isSkipped, Refused refused) {
        Object[] why = new Object[WHY.length()];
        why[0] = isSkipped;
        if (refused != null) {
            why[1] = UTF8String.fromString(refused.reason);
            why[2] = UTF8String.fromString(refused.field());
            why[3] = UTF8String.fromString(refused.getMessage());
        }
        return new GenericInternalRow(why);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Decoder && key().equals(((Decoder) other).key());
    }

    @Override
    public int hashCode() {
        return key().hashCode();
    }

    /** Plans are printed: nothing of the schemas, and nothing of the registry. */
    @Override
    public String toString() {
        return "avro";
    }

    private List<Object> key() {
        return List.of(schema, framing, writers, registry == null ? "" : registry, policies, recordNames, idHeader);
    }

    private Object read(byte[] value, int begin, Grown.Made writer) {
        try {
            Input in = new Input(value, begin);
            Object row = writer.reader.read(in);
            if (!in.isAtEnd()) {
                throw new Refused("TRAILING_BYTES", "bytes follow the record");
            }
            return row;
        } catch (Refused | RegistryFailure told) {
            throw told;
        } catch (RuntimeException | StackOverflowError error) {
            throw new Refused("UNEXPLAINED", "the record cannot be read: " + error.getClass().getSimpleName());
        }
    }

    /** What a header says of the schema of its record; null if none does. */
    private byte[] header(ArrayData headers) {
        return headers == null || !framing.equals("confluent") ? null : SchemaId.header(headers, idHeader);
    }

    private int begin() {
        switch (framing) {
            case "single_object":
                return SINGLE_OBJECT_HEADER;
            case "confluent":
                return CONFLUENT_HEADER;
            default:
                return 0;
        }
    }

    private Grown.Made writer(byte[] value, byte[] header, Known state) {
        switch (framing) {
            case "single_object":
                if (value.length < SINGLE_OBJECT_HEADER
                        || value[0] != SINGLE_OBJECT_FIRST
                        || value[1] != SINGLE_OBJECT_SECOND) {
                    throw new Refused("WRONG_MAGIC", "the value does not begin with C3 01 and a fingerprint");
                }
                return state.byFingerprint(ByteBuffer.wrap(value).order(ByteOrder.LITTLE_ENDIAN).getLong(2));
            case "confluent":
                SchemaId id = header == null ? SchemaId.before(value) : SchemaId.in(header, idHeader);
                if (id == null) {
                    String asked = idHeader.isEmpty() ? "" : ", and no header " + idHeader + " has one";
                    throw new Refused("WRONG_MAGIC", header == null
                            ? "the value does not begin with a zero and the id of a schema" + asked
                            : "the header " + idHeader + " has neither the id of a schema nor its GUID");
                }
                return state.writer(id, registry);
            default:
                return state.only;
        }
    }

    private Known known() {
        if (known == null) {
            if (ALL_KNOWN.size() > MOST_KNOWN) {
                ALL_KNOWN.clear();
            }
            known = ALL_KNOWN.computeIfAbsent(key(), each -> new Known(this));
        }
        return known;
    }

    /** What is made of the schemas, once for a process. */
    private static final class Known {
        final Schema reader;
        final StructType columns;
        final Grown.Made only;
        final InternalRow blank;
        final Policies policies;
        private final List<String> recordNames;
        private final Map<Long, Grown.Made> byFingerprint = new HashMap<>();
        private final Map<SchemaId, Grown.Made> byId = new ConcurrentHashMap<>();

        Known(Decoder said) {
            reader = parsed(said.schema);
            StructType declared = Columns.ofRow(reader);
            recordNames = said.recordNames;
            policies = said.policies.isEmpty() ? null : new Policies(said.policies);
            columns = policies == null ? declared : policies.bare();
            blank = new GenericInternalRow(new Object[columns.length()]);
            if (said.framing.equals("single_object")) {
                know(said.writers);
            }
            only = said.framing.equals("plain") ? ofAll(said.writers) : null;
        }

        /** Where one schema is that of all records, another name is a mistake in the flow, and not in each record. */
        private Grown.Made ofAll(List<String> writers) {
            Schema writer = writers.isEmpty() ? reader : parsed(writers.get(0));
            if (!isOfTheTable(writer)) {
                throw new IllegalArgumentException("writer_schemas has the record " + writer.getFullName()
                        + ", and the table's schema the record " + reader.getFullName()
                        + ": add \"aliases\": [\"" + writer.getFullName() + "\"] to the table's schema");
            }
            return row(writer);
        }

        private void know(List<String> writers) {
            Map<Long, Schema> seen = new HashMap<>();
            List<Schema> all = new ArrayList<>(List.of(reader));
            writers.forEach(each -> all.add(parsed(each)));
            for (Schema writer : all) {
                long fingerprint = SchemaNormalization.parsingFingerprint64(writer);
                Schema twin = seen.putIfAbsent(fingerprint, writer);
                // A fingerprint says nothing of logical types: nobody could tell their records apart.
                if (twin != null && !logicals(twin).equals(logicals(writer))) {
                    throw new IllegalArgumentException("two schemas of one fingerprint differ in their logical types: "
                            + writer.getFullName());
                }
                byFingerprint.put(fingerprint, row(writer));
            }
        }

        /** Whole values of a writer as rows, if they are those of the flow. */
        private Grown.Made row(Schema writer) {
            if (!isTaken(writer)) {
                return recordNames.isEmpty() ? Grown.Made.refused("RECORD_NAME", otherName(writer)) : Grown.Made.skipped();
            }
            Reader whole = Readers.of(writer, reader);
            if (reader.getType() == Schema.Type.RECORD) {
                return new Grown.Made(whole, false, Surplus.of(Grown.named(writer, reader), reader));
            }
            return new Grown.Made(in -> new GenericInternalRow(new Object[] {whole.read(in)}), false, List.of());
        }

        private boolean isTaken(Schema writer) {
            return recordNames.isEmpty()
                    ? isOfTheTable(writer)
                    : recordNames.contains(writer.getFullName()) || recordNames.contains(writer.getName());
        }

        /** Whether a record has the name of the table's, or one of its aliases. */
        private boolean isOfTheTable(Schema writer) {
            return writer.getType() != Schema.Type.RECORD
                    || reader.getType() != Schema.Type.RECORD
                    || NamedTypes.agree(writer, reader)
                    || reader.getAliases().contains(writer.getFullName());
        }

        private String otherName(Schema writer) {
            return "the value was written as record " + writer.getFullName() + ", the flow reads " + reader.getFullName();
        }

        private static List<String> logicals(Schema schema) {
            return LOGICAL.matcher(schema.toString()).results().map(MatchResult::group).collect(Collectors.toList());
        }

        Grown.Made byFingerprint(long fingerprint) {
            Grown.Made found = byFingerprint.get(fingerprint);
            if (found == null) {
                String name = String.format("%016x", fingerprint);
                throw new Refused("UNKNOWN_SCHEMA", "no schema of the flow has the fingerprint " + name);
            }
            return found;
        }

        Grown.Made writer(SchemaId id, Registry registry) {
            Grown.Made found = byId.get(id);
            if (found == null) {
                found = resolved(id, registry.schema(id));
                byId.put(id, found);
            }
            return found;
        }

        /** A schema that cannot be resolved is found out once, not for each of its records. */
        private Grown.Made resolved(SchemaId id, Schema writer) {
            try {
                if (policies == null || !isTaken(writer)) {
                    return row(writer);
                }
                Grown.Made made = Grown.of(writer, reader, policies);
                return policies.isLookedAt(id) ? made.withoutGrowth() : made;
            } catch (Refused refused) {
                return Grown.Made.refused(refused.reason, refused.getMessage());
            } catch (RuntimeException | StackOverflowError error) {
                String why = error.getClass().getSimpleName();
                String message = "the writer's schema does not resolve: " + why;
                return Grown.Made.refused("SCHEMA_MISMATCH", message);
            }
        }
    }
}
