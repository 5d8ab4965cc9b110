package rivermouth.kafka;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;

import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;

/**
 * A producer of transactions: records and the ledger entry that says so are there together, or none of them.
 *
 * <p>It lives in the driver, and the rows of a batch come to it partition by partition. One thread uses it at a time.
 */
public final class Transactions implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger(Transactions.class.getName());
    private static final int TOPIC = 0;
    private static final int PARTITION = 1;
    private static final int KEY = 2;
    private static final int VALUE = 3;
    private static final int HEADERS = 4;

    private final KafkaProducer<byte[], byte[]> producer;
    private final AtomicReference<Exception> failure = new AtomicReference<>();
    private final Callback heard = (found, error) -> {
        if (error != null) {
            failure.compareAndSet(null, error);
        }
    };

    /**
     * Waits for the transaction that a producer of this id left open: it is completed or aborted, and that producer
     * can write no more.
     *
     * @param options of Kafka's producer, without serializers
     * @param id the transactional id
     */
    public Transactions(Map<String, String> options, String id) {
        Map<String, Object> config = new HashMap<>(options);
        config.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, id);
        ByteArraySerializer asTheyAre = new ByteArraySerializer();
        producer = new KafkaProducer<>(config, asTheyAre, asTheyAre);
        try {
            producer.initTransactions();
        } catch (RuntimeException error) {
            producer.close(Duration.ZERO);
            throw error;
        }
    }

    /** Begins a transaction. */
    public void begin() {
        failure.set(null);
        producer.beginTransaction();
    }

    /**
     * Sends the rows in their order: topic, partition or null, key, value, and headers as structs of key and value.
     * Afterwards the brokers have them, and nobody who reads committed records sees them.
     *
     * @return how many there were
     */
    public long send(Dataset<Row> rows) {
        long sent = 0;
        Iterator<Row> each = rows.toLocalIterator();
        while (each.hasNext()) {
            send(each.next());
            sent++;
            stopIfFailed();
        }
        producer.flush();
        stopIfFailed();
        return sent;
    }

    private void send(Row row) {
        ProducerRecord<byte[], byte[]> record;
        try {
            record = record(row);
        } catch (IllegalArgumentException | NullPointerException error) {
            throw new InvalidRecordException(error.getMessage(), error);
        }
        producer.send(record, heard);
    }

    private static ProducerRecord<byte[], byte[]> record(Row row) {
        Integer partition = row.isNullAt(PARTITION) ? null : row.getInt(PARTITION);
        Iterable<Header> headers = row.isNullAt(HEADERS) ? null : headers(row.getList(HEADERS));
        return new ProducerRecord<>(row.getString(TOPIC), partition, row.getAs(KEY), row.getAs(VALUE), headers);
    }

    private static Iterable<Header> headers(List<Row> rows) {
        return () -> rows.stream().map(Transactions::header).iterator();
    }

    private static Header header(Row row) {
        return new RecordHeader(row.getString(0), row.<byte[]>getAs(1));
    }

    /** Commits the transaction with a ledger entry; afterwards readers see both. */
    public void commit(String topic, String key, String entry) {
        byte[] name = key.getBytes(StandardCharsets.UTF_8);
        producer.send(new ProducerRecord<>(topic, 0, name, entry.getBytes(StandardCharsets.UTF_8)), heard);
        producer.flush();
        stopIfFailed();
        producer.commitTransaction();
    }

    private void stopIfFailed() {
        Exception error = failure.get();
        if (error instanceof RuntimeException) {
            throw (RuntimeException) error;
        }
        if (error != null) {
            throw new KafkaException(error);
        }
    }

    /** Aborts the transaction, and closes the producer: readers of committed records never see what was sent. */
    public void abandon() {
        try {
            producer.abortTransaction();
        } catch (RuntimeException error) {
            // It was ended by the broker already, or the next producer of this id ends it. A commit that timed out can
            // only be tried again, and its error is the one to be told.
            LOG.log(System.Logger.Level.DEBUG, "the transaction was not aborted", error);
        } finally {
            close();
        }
    }

    @Override
    public void close() {
        producer.close(Duration.ZERO);
    }
}
