package rivermouth.kafka;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** Topics of a cluster, looked at and made with the options of Kafka's Java client. */
public final class Topics implements AutoCloseable {
    private final Admin admin;

    /** Options of Kafka's admin client. */
    public Topics(Map<String, String> options) {
        admin = Admin.create(new HashMap<>(options));
    }

    /** How many partitions a topic has; 0 of one that is not there. */
    public int partitions(String topic) {
        try {
            return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
        } catch (ExecutionException error) {
            if (error.getCause() instanceof UnknownTopicOrPartitionException) {
                return 0;
            }
            throw failed(error);
        } catch (InterruptedException error) {
            throw interrupted(error);
        }
    }

    /** Where the partitions of topics end: a line for each, of topic, partition and offset with tabs between them. */
    public String ends(List<String> topics, boolean committed) {
        OffsetSpec newest = OffsetSpec.latest();
        IsolationLevel level = committed ? IsolationLevel.READ_COMMITTED : IsolationLevel.READ_UNCOMMITTED;
        try {
            Map<TopicPartition, OffsetSpec> wanted = new HashMap<>();
            admin.describeTopics(topics).allTopicNames().get().forEach((topic, found) -> found.partitions()
                .forEach(each -> wanted.put(new TopicPartition(topic, each.partition()), newest)));
            StringBuilder text = new StringBuilder();
            admin.listOffsets(wanted, new ListOffsetsOptions(level)).all().get().forEach((each, found) -> text
                .append(each.topic()).append('\t').append(each.partition()).append('\t').append(found.offset())
                .append('\n'));
            return text.toString();
        } catch (ExecutionException error) {
            throw failed(error);
        } catch (InterruptedException error) {
            throw interrupted(error);
        }
    }

    /** Makes a topic, unless somebody was faster; of partitions and replicas 0 means the broker's default. */
    public void create(String topic, int partitions, int replicas, Map<String, String> settings) {
        Optional<Integer> parts = partitions == 0 ? Optional.empty() : Optional.of(partitions);
        Optional<Short> copies = replicas == 0 ? Optional.empty() : Optional.of((short) replicas);
        try {
            admin.createTopics(List.of(new NewTopic(topic, parts, copies).configs(settings))).all().get();
        } catch (ExecutionException error) {
            if (!(error.getCause() instanceof TopicExistsException)) {
                throw failed(error);
            }
        } catch (InterruptedException error) {
            throw interrupted(error);
        }
    }

    /** The value of a topic's setting; null of one that Kafka does not know. */
    public String setting(String topic, String name) {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        try {
            ConfigEntry found = admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name);
            return found == null ? null : found.value();
        } catch (ExecutionException error) {
            throw failed(error);
        } catch (InterruptedException error) {
            throw interrupted(error);
        }
    }

    private static RuntimeException failed(ExecutionException error) {
        Throwable cause = error.getCause();
        return cause instanceof RuntimeException ? (RuntimeException) cause : new KafkaException(cause);
    }

    private static RuntimeException interrupted(InterruptedException error) {
        Thread.currentThread().interrupt();
        return new KafkaException(error);
    }

    @Override
    public void close() {
        admin.close(java.time.Duration.ZERO);
    }
}
