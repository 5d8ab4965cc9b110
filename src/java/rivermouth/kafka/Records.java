package rivermouth.kafka;

import java.io.Serializable;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

import org.apache.spark.TaskContext;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.TaskCompletionListener;

import rivermouth.internals.plan.Calls;

/**
 * Records of Kafka, whatever their timestamps: Spark's own reader fails where one is too large for microseconds.
 *
 * <p>Such a timestamp is read as the largest that Spark has. Spark sends this object to the tasks as part of a plan;
 * each task has a consumer of its own until it ends.
 */
public final class Records implements Serializable {
    private static final long serialVersionUID = 1;
    private static final long MICROS_PER_MILLI = 1000;
    private static final int PARTS_OF_A_PLACE = 4;
    private static final Duration POLL = Duration.ofSeconds(1);
    // As long as Spark's own reader waits.
    private static final long PATIENCE_NS = TimeUnit.SECONDS.toNanos(120);

    private final HashMap<String, Object> options;
    private transient KafkaConsumer<byte[], byte[]> consumer;
    private transient TopicPartition assigned;
    // What came of the partition and belongs to places that are asked for later; and where those begin.
    private transient ArrayDeque<ConsumerRecord<byte[], byte[]>> polled;
    private transient long next;

    /** Options of Kafka's consumer, without its deserializers. */
    public Records(Map<String, String> options) {
        this.options = new HashMap<>(options);
        this.options.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "false");
        this.options.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "none");
        this.options.remove(ConsumerConfig.GROUP_ID_CONFIG);
    }

    /** Of a string column with places, {@code partition:start:end:topic}: the records there, in Kafka's columns. */
    public Column of(String column) {
        return Calls.once(this, "read", DataTypes.createArrayType(row(), false), false, column);
    }

    private static StructType row() {
        StructType header =
                new StructType().add("key", DataTypes.StringType).add("value", DataTypes.BinaryType);
        DataType headers = DataTypes.createArrayType(header);
        return new StructType()
                .add("key", DataTypes.BinaryType)
                .add("value", DataTypes.BinaryType)
                .add("topic", DataTypes.StringType)
                .add("partition", DataTypes.IntegerType)
                .add("offset", DataTypes.LongType)
                .add("timestamp", DataTypes.TimestampType)
                .add("timestampType", DataTypes.IntegerType)
                .add("headers", headers);
    }

    /** For Spark: the records of a place. */
    public synchronized ArrayData read(UTF8String place) {
        String[] parts = place.toString().split(":", PARTS_OF_A_PLACE);
        TopicPartition partition = new TopicPartition(parts[PARTS_OF_A_PLACE - 1], Integer.parseInt(parts[0]));
        long start = Long.parseLong(parts[1]);
        long end = Long.parseLong(parts[2]);
        KafkaConsumer<byte[], byte[]> source = at(partition, start);
        List<Object> found = new ArrayList<>();
        long deadline = System.nanoTime() + PATIENCE_NS;
        long before = source.position(partition);
        while (true) {
            while (!polled.isEmpty() && polled.peek().offset() < end) {
                found.add(row(polled.remove()));
            }
            if (!polled.isEmpty() || source.position(partition) >= end) {
                break;
            }
            polled.addAll(source.poll(POLL).records(partition));
            if (source.position(partition) > before) {
                before = source.position(partition);
                deadline = System.nanoTime() + PATIENCE_NS;
            } else if (System.nanoTime() > deadline) {
                throw new IllegalStateException(partition + ": nothing came of offset " + before + " within 120 s");
            }
        }
        next = end;
        if (TaskContext.get() == null) {
            close();
        }
        return new GenericArrayData(found.toArray());
    }

    private static GenericInternalRow row(ConsumerRecord<byte[], byte[]> record) {
        long millis = record.timestamp();
        boolean fits = Math.abs(millis) <= Long.MAX_VALUE / MICROS_PER_MILLI;
        return new GenericInternalRow(new Object[] {
            record.key(),
            record.value(),
            UTF8String.fromString(record.topic()),
            record.partition(),
            record.offset(),
            fits ? millis * MICROS_PER_MILLI : Long.MAX_VALUE,
            record.timestampType().id,
            headers(record)
        });
    }

    private static ArrayData headers(ConsumerRecord<byte[], byte[]> record) {
        Header[] headers = record.headers().toArray();
        if (headers.length == 0) {
            return null;
        }
        Object[] found = new Object[headers.length];
        for (int at = 0; at < found.length; at++) {
            UTF8String key = UTF8String.fromString(headers[at].key());
            found[at] = new GenericInternalRow(new Object[] {key, headers[at].value()});
        }
        return new GenericArrayData(found);
    }

    private KafkaConsumer<byte[], byte[]> at(TopicPartition partition, long start) {
        if (consumer == null) {
            ByteArrayDeserializer asTheyAre = new ByteArrayDeserializer();
            consumer = new KafkaConsumer<>(options, asTheyAre, asTheyAre);
            polled = new ArrayDeque<>();
            TaskContext task = TaskContext.get();
            if (task != null) {
                TaskCompletionListener closing = done -> close();
                task.addTaskCompletionListener(closing);
            }
        }
        if (!partition.equals(assigned) || start != next) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, start);
            assigned = partition;
            polled.clear();
        }
        return consumer;
    }

    private synchronized void close() {
        if (consumer != null) {
            consumer.close(Duration.ZERO);
            consumer = null;
            assigned = null;
            polled = null;
        }
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Records && options.equals(((Records) other).options);
    }

    @Override
    public int hashCode() {
        return options.hashCode();
    }

    /** Plans are printed: nothing of the options, which may be secrets. */
    @Override
    public String toString() {
        return "records";
    }
}
