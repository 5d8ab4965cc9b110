package rivermouth.values;

import java.io.Serializable;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.TaskCompletionListener;

import rivermouth.internals.plan.Calls;

/**
 * Values by a user's own deserializer, and what it returns as columns. Spark sends this object to the tasks as part of
 * a plan; deserializers stay in their process, and no two tasks use one at a time.
 */
public final class Deserialized implements Serializable {
    private static final long serialVersionUID = 1;
    private static final StructType VERDICT = new StructType()
            .add("skipped", DataTypes.BooleanType)
            .add("reason", DataTypes.StringType)
            .add("field", DataTypes.StringType)
            .add("message", DataTypes.StringType);
    private static final int MESSAGE = 3;

    private final String name;
    private final HashMap<String, Object> config;
    private final String schema;
    private final boolean isKey;
    private final boolean truncatesTimes;
    private transient Shape shape;
    private transient PooledDeserializer held;

    /**
     * A deserializer of one flow.
     *
     * @param name of its class
     * @param config handed to its {@code configure}
     * @param schema Spark's JSON form of the declared columns
     * @param isKey whether it is for the keys of records, as {@code configure} hears
     * @param truncatesTimes whether what is less than a microsecond is cut off of times
     * @throws IllegalArgumentException no Java object becomes one of the types
     */
    public Deserialized(
            String name, Map<String, Object> config, String schema, boolean isKey, boolean truncatesTimes) {
        this.name = name;
        this.config = new HashMap<>(config);
        this.schema = schema;
        this.isKey = isKey;
        this.truncatesTimes = truncatesTimes;
        shape();
    }

    /** Why a class cannot be used here: a sentence, empty if it is not there. Null if it can. */
    public String trouble() {
        try {
            PooledDeserializer found = PooledDeserializer.borrowed(name, config, isKey);
            found.giveBack();
            return null;
        } catch (PooledDeserializer.Unusable unusable) {
            return unusable.getMessage();
        }
    }

    /**
     * Of columns with value, topic and headers: {@code decoded boolean}, {@code data}, a struct of the columns, and
     * {@code verdict}: whether the record is left out, and why its value is refused. Never null.
     */
    public Column over(String value, String topic, String headers) {
        StructType row = new StructType()
                .add("decoded", DataTypes.BooleanType, false)
                .add("data", columns().asNullable(), false)
                .add("verdict", VERDICT, false);
        return Calls.once(this, "read", row, false, value, topic, headers);
    }

    /** A row for Spark, as {@code over} says. */
    public InternalRow read(byte[] value, UTF8String topic, ArrayData headers) {
        Object row = shape().blank;
        Object[] verdict = new Object[VERDICT.length()];
        verdict[0] = false;
        boolean decoded = true;
        if (value != null) {
            try {
                // A deserializer may decrypt in place.
                Object found = deserialized(value.clone(), topic == null ? null : topic.toString(), of(headers));
                if (found == null) {
                    verdict[0] = true;
                } else {
                    row = row(found);
                }
            } catch (Refused refused) {
                decoded = false;
                verdict[1] = UTF8String.fromString(refused.reason);
                verdict[2] = UTF8String.fromString(refused.field);
                verdict[MESSAGE] = UTF8String.fromString(refused.getMessage());
            }
        }
        return new GenericInternalRow(new Object[] {decoded, row, new GenericInternalRow(verdict)});
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Deserialized && key().equals(((Deserialized) other).key());
    }

    @Override
    public int hashCode() {
        return key().hashCode();
    }

    /** Plans are printed: nothing of the configuration. */
    @Override
    public String toString() {
        return "jvm";
    }

    private List<Object> key() {
        return List.of(name, config, schema, isKey, truncatesTimes);
    }

    private Object deserialized(byte[] value, String topic, Headers headers) {
        TaskContext task = TaskContext.get();
        if (held != null) {
            return held.deserialized(topic, headers, value);
        }
        PooledDeserializer mine = PooledDeserializer.inTask(name, config, isKey);
        if (task == null) {
            try {
                return mine.deserialized(topic, headers, value);
            } finally {
                mine.giveBack();
            }
        }
        held = mine;
        task.addTaskCompletionListener((TaskCompletionListener) ended -> {
            held = null;
            mine.giveBack();
        });
        return mine.deserialized(topic, headers, value);
    }

    private InternalRow row(Object found) {
        Shape shape = shape();
        try {
            Object plain = shape.view.plain(found, shape.type);
            View.Fields fields = plain == null ? null : shape.view.fields(plain);
            if (fields == null) {
                return alone(found);
            }
            if (!shape.columns.isAnyIn(fields)) {
                throw new Refused("NO_DECLARED_FIELD", "what it returned has none of the declared columns");
            }
            return shape.columns.row(fields);
        } catch (Refused refused) {
            throw refused;
        } catch (Getters.Unreadable thrown) {
            throw PooledDeserializer.failed("what it returned cannot be read: ", thrown.getCause(), config);
        } catch (RuntimeException | StackOverflowError error) {
            throw PooledDeserializer.failed("what it returned cannot be read: ", error, config);
        }
    }

    /** A value without fields is that of the only column. */
    private InternalRow alone(Object found) {
        if (shape.only == null) {
            Object plain = shape.view.plain(found, shape.type);
            String what = plain == null ? "nothing" : Leaf.kind(plain);
            throw new Refused("DESERIALIZER_FAILED", "it returned " + what + ", and the schema has several columns");
        }
        return new GenericInternalRow(new Object[] {shape.only.fit(found)});
    }

    private static Headers of(ArrayData headers) {
        RecordHeaders found = new RecordHeaders();
        for (int place = 0; headers != null && place < headers.numElements(); place++) {
            InternalRow header = headers.getStruct(place, 2);
            byte[] content = header.isNullAt(1) ? null : header.getBinary(1);
            found.add(header.getUTF8String(0).toString(), content);
        }
        return found;
    }

    private StructType columns() {
        return (StructType) DataType.fromJson(schema);
    }

    private Shape shape() {
        if (shape == null) {
            shape = new Shape(columns(), truncatesTimes);
        }
        return shape;
    }

    /** What is made of the schema. */
    private static final class Shape {
        final View view;
        final DataType type;
        final Fitting.Columns columns;
        final Fitting only;
        final InternalRow blank;

        Shape(StructType schema, boolean truncatesTimes) {
            view = new JavaView(truncatesTimes);
            type = schema;
            columns = new Fitting.Columns(schema, "", view);
            boolean single = schema.length() == 1;
            only = single
                    ? Fitting.of(
                            schema.apply(0).dataType(), schema.apply(0).name(), !schema.apply(0).nullable(), view)
                    : null;
            blank = new GenericInternalRow(new Object[schema.length()]);
        }
    }
}
