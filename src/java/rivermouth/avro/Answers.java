package rivermouth.avro;

import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.function.IntFunction;

import org.apache.avro.Schema;

/**
 * What a registry said of the ids of records, for all tasks of a process. Who asks for an id that is being asked for
 * waits, and shares the answer or the failure; other ids are asked for meanwhile.
 */
final class Answers {
    private static final long ABSENT_NANOS = 10_000_000_000L;
    // Bytes of others begin with any id: each is a question.
    private static final int MOST_ABSENT = 100;

    private final Map<Integer, Schema> schemas = new ConcurrentHashMap<>();
    private final Map<Integer, Answer> absent = new ConcurrentHashMap<>();
    private final Map<Integer, CompletableFuture<Answer>> asking = new ConcurrentHashMap<>();

    /** The schema of an id, or why there is none, for a while. */
    static final class Answer {
        final Schema schema;
        final String why;
        private final long since = System.nanoTime();

        Answer(Schema schema, String why) {
            this.schema = schema;
            this.why = why;
        }

        boolean isOld() {
            return System.nanoTime() - since >= ABSENT_NANOS;
        }
    }

    /**
     * The schema of an id.
     *
     * @param ask asks the registry; only if the answer is not known
     * @throws Refused there is none, or too many ids had none
     * @throws RegistryFailure the registry does not say
     */
    Schema schema(int id, IntFunction<Answer> ask) {
        Schema known = schemas.get(id);
        if (known != null) {
            return known;
        }
        Answer answer = known(id);
        while (answer == null) {
            CompletableFuture<Answer> mine = new CompletableFuture<>();
            CompletableFuture<Answer> others = asking.putIfAbsent(id, mine);
            answer = others == null ? asked(id, ask, mine) : awaited(others);
        }
        if (answer.schema == null) {
            throw new Refused("UNKNOWN_SCHEMA", answer.why);
        }
        return answer.schema;
    }

    void forgetAbsent() {
        absent.clear();
    }

    private Answer known(int id) {
        Schema schema = schemas.get(id);
        if (schema != null) {
            return new Answer(schema, "");
        }
        Answer none = absent.get(id);
        return none == null || none.isOld() ? null : none;
    }

    private Answer asked(int id, IntFunction<Answer> ask, CompletableFuture<Answer> mine) {
        Answer found = null;
        try {
            // It may have been answered a moment ago.
            found = known(id);
            if (found == null) {
                found = isTooMany() ? unasked(id) : kept(id, ask.apply(id));
            }
            return found;
        } catch (RegistryFailure failure) {
            // Who was stopped has found out nothing for the others.
            if (!Thread.currentThread().isInterrupted()) {
                mine.completeExceptionally(failure);
            }
            throw failure;
        } finally {
            asking.remove(id, mine);
            mine.complete(found);
        }
    }

    /** What another found; null if it was stopped. */
    private static Answer awaited(CompletableFuture<Answer> others) {
        try {
            return others.get();
        } catch (ExecutionException failed) {
            throw new RegistryFailure(failed.getCause().getMessage());
        } catch (InterruptedException stopped) {
            throw RegistryFailure.stopped();
        }
    }

    private Answer kept(int id, Answer found) {
        if (found.schema == null) {
            absent.put(id, found);
        } else {
            schemas.put(id, found.schema);
        }
        return found;
    }

    private boolean isTooMany() {
        if (absent.size() >= MOST_ABSENT) {
            absent.values().removeIf(Answer::isOld);
        }
        return absent.size() >= MOST_ABSENT;
    }

    private static Answer unasked(int id) {
        return new Answer(null, "the schema registry was not asked for the id " + id + ": it had none of "
                + MOST_ABSENT + " others within " + ABSENT_NANOS / 1_000_000_000 + " s");
    }
}
