package rivermouth.kafka;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** The topic with the ledger entries of one flow: one partition, and the last committed record is the newest entry. */
public final class LedgerTopic {
    private static final Duration POLL = Duration.ofMillis(200);
    private static final long PATIENCE_NS = TimeUnit.SECONDS.toNanos(60);
    private static final long FIRST_LOOK = 16;

    private LedgerTopic() {}

    /**
     * The newest committed entry; null where there is none. Looks backwards from the end, further with each look.
     *
     * @param options of Kafka's consumer, without deserializers
     * @param topic with one partition
     */
    public static String newest(Map<String, String> options, String topic) {
        Map<String, Object> config = new HashMap<>(options);
        config.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
        config.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "false");
        config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        config.remove(ConsumerConfig.GROUP_ID_CONFIG);
        TopicPartition partition = new TopicPartition(topic, 0);
        ByteArrayDeserializer asTheyAre = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config, asTheyAre, asTheyAre)) {
            consumer.assign(List.of(partition));
            long first = consumer.beginningOffsets(List.of(partition)).get(partition);
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            for (long look = FIRST_LOOK; ; look *= look) {
                long from = Math.max(first, end - look);
                byte[] found = last(consumer, partition, from, end);
                if (found != null) {
                    return new String(found, StandardCharsets.UTF_8);
                }
                if (from == first) {
                    return null;
                }
            }
        }
    }

    private static byte[] last(
            KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, long from, long end) {
        byte[] found = null;
        consumer.seek(partition, from);
        long deadline = System.nanoTime() + PATIENCE_NS;
        while (consumer.position(partition) < end) {
            for (ConsumerRecord<byte[], byte[]> each : consumer.poll(POLL).records(partition)) {
                found = each.offset() < end ? each.value() : found;
            }
            if (System.nanoTime() > deadline) {
                throw new TimeoutException(partition + " was not read to its end within 60 s");
            }
        }
        return found;
    }
}
