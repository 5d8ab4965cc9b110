package rivermouth.values;

import java.lang.reflect.InvocationTargetException;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedDeque;

import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.Deserializer;

/**
 * A user's deserializer, configured, in the hands of one task. Between tasks it waits for the next one: what it has
 * asked a schema registry, say, it need not ask again.
 */
final class PooledDeserializer {
    private static final int MOST_KINDS = 100;
    private static final int MESSAGE_LENGTH = 500;
    private static final int SHORTEST_SECRET = 6;
    // Known to decoding/jvm/jvm_deserializer.py.
    private static final String LOST = "RIVERMOUTH_DESERIALIZER_LOST|";
    private static final Map<List<Object>, Deque<PooledDeserializer>> WAITING = new ConcurrentHashMap<>();

    private final Deserializer<?> deserializer;
    private final Map<String, Object> config;
    private final List<Object> key;

    private PooledDeserializer(Deserializer<?> deserializer, Map<String, Object> config, List<Object> key) {
        this.deserializer = deserializer;
        this.config = config;
        this.key = key;
    }

    /**
     * One that waits, or a new one.
     *
     * @throws Unusable the class is not there, or is none that can be used
     */
    static PooledDeserializer borrowed(String name, Map<String, Object> config, boolean isKey) {
        List<Object> key = List.of(name, config, isKey, loader());
        Deque<PooledDeserializer> waiting = WAITING.get(key);
        PooledDeserializer found = waiting == null ? null : waiting.pollFirst();
        return found == null ? new PooledDeserializer(made(name, config, isKey), config, key) : found;
    }

    /** The same in a task, where the driver has found that it can be used: that it cannot here is no record's fault. */
    static PooledDeserializer inTask(String name, Map<String, Object> config, boolean isKey) {
        try {
            return borrowed(name, config, isKey);
        } catch (Unusable unusable) {
            String said = unusable.getMessage();
            throw lost(name, said.isEmpty() ? "the class is not there" : said);
        }
    }

    void giveBack() {
        if (WAITING.size() > MOST_KINDS) {
            WAITING.clear();
        }
        WAITING.computeIfAbsent(key, each -> new ConcurrentLinkedDeque<>()).addFirst(this);
    }

    /** What it makes of a value. */
    Object deserialized(String topic, Headers headers, byte[] value) {
        try {
            return deserializer.deserialize(topic, headers, value);
        } catch (StackOverflowError error) {
            throw failed("", error, config);
        } catch (LinkageError error) {
            // A jar is missing, or another one hides it: the next record would meet it, too.
            throw lost(deserializer.getClass().getName(), said(error, config));
        } catch (VirtualMachineError error) {
            throw error;
        } catch (Throwable error) {
            if (Thread.currentThread().isInterrupted()) {
                throw error;
            }
            throw failed("", error, config);
        }
    }

    /** That a record is refused for what was thrown. */
    static Refused failed(String begin, Throwable error, Map<String, Object> config) {
        String said = said(error, config);
        Throwable cause = error;
        for (int depth = 0; cause.getCause() != null && depth < MOST_KINDS; depth++) {
            cause = cause.getCause();
        }
        if (cause != error) {
            said += "; caused by " + said(cause, config);
        }
        return new Refused("DESERIALIZER_FAILED", bounded(begin + said));
    }

    private static IllegalStateException lost(String name, String why) {
        return new IllegalStateException(LOST + name + "|" + why.replaceAll("\\s+", " ") + "|");
    }

    private static Deserializer<?> made(String name, Map<String, Object> config, boolean isKey) {
        Object found;
        try {
            found = Class.forName(name, true, loader()).getDeclaredConstructor().newInstance();
        } catch (ClassNotFoundException error) {
            throw new Unusable("");
        } catch (NoSuchMethodException | InstantiationException | IllegalAccessException error) {
            throw new Unusable("it has no public constructor without arguments");
        } catch (InvocationTargetException error) {
            throw new Unusable("its constructor threw " + said(error.getCause(), config));
        } catch (LinkageError error) {
            throw new Unusable("it cannot be loaded: " + said(error, config));
        }
        if (!(found instanceof Deserializer)) {
            throw new Unusable("it is no " + Deserializer.class.getName());
        }
        Deserializer<?> deserializer = (Deserializer<?>) found;
        try {
            deserializer.configure(config, isKey);
        } catch (RuntimeException | LinkageError | AssertionError | StackOverflowError error) {
            throw new Unusable("its configure() threw " + said(error, config));
        }
        return deserializer;
    }

    private static ClassLoader loader() {
        ClassLoader found = Thread.currentThread().getContextClassLoader();
        return found == null ? PooledDeserializer.class.getClassLoader() : found;
    }

    /** Name and text of what was thrown, and no value of the configuration that is long enough to be a secret. */
    private static String said(Throwable error, Map<String, Object> config) {
        String text;
        try {
            text = error.getMessage();
        } catch (RuntimeException odd) {
            text = null;
        }
        String said = error.getClass().getName() + (text == null || text.isBlank() ? "" : ": " + text);
        for (Object value : config.values()) {
            if (value instanceof String && ((String) value).length() >= SHORTEST_SECRET) {
                said = said.replace((String) value, "***");
            }
        }
        return bounded(said);
    }

    private static String bounded(String text) {
        return text.length() <= MESSAGE_LENGTH ? text : text.substring(0, MESSAGE_LENGTH - 1) + "…";
    }

    /** A class cannot be used, for a reason in a sentence; an empty one if it is not there. */
    static final class Unusable extends RuntimeException {
        private static final long serialVersionUID = 1;

        Unusable(String message) {
            super(message, null, false, false);
        }
    }
}
