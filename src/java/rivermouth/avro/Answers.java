package rivermouth.avro;

import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.function.Function;

/**
 * What a registry said of the ids of records, for all tasks of a process. Who asks for an id that is being asked for
 * waits, and shares the answer or the failure; other ids are asked for meanwhile.
 *
 * @param <S> what a schema is here
 */
final class Answers<S> {
    private static final long ABSENT_NANOS = 10_000_000_000L;
    // Bytes of others begin with any id: each is a question.
    private static final int MOST_ABSENT = 100;

    private final Map<SchemaId, S> schemas = new ConcurrentHashMap<>();
    private final Map<SchemaId, Answer<S>> absent = new ConcurrentHashMap<>();
    private final Map<SchemaId, CompletableFuture<Answer<S>>> asking = new ConcurrentHashMap<>();

    /** The schema of an id, or why there is none, for a while. */
    static final class Answer<S> {
        final S schema;
        final String why;
        private final long since = System.nanoTime();

        Answer(S schema, String why) {
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
    S schema(SchemaId id, Function<SchemaId, Answer<S>> ask) {
        S known = schemas.get(id);
        if (known != null) {
            return known;
        }
        Answer<S> answer = known(id);
        while (answer == null) {
            CompletableFuture<Answer<S>> mine = new CompletableFuture<>();
            CompletableFuture<Answer<S>> others = asking.putIfAbsent(id, mine);
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

    private Answer<S> known(SchemaId id) {
        S schema = schemas.get(id);
        if (schema != null) {
            return new Answer<>(schema, "");
        }
        Answer<S> none = absent.get(id);
        return none == null || none.isOld() ? null : none;
    }

    private Answer<S> asked(SchemaId id, Function<SchemaId, Answer<S>> ask, CompletableFuture<Answer<S>> mine) {
        Answer<S> found = null;
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
    private static <S> Answer<S> awaited(CompletableFuture<Answer<S>> others) {
        try {
            return others.get();
        } catch (ExecutionException failed) {
            throw new RegistryFailure(failed.getCause().getMessage());
        } catch (InterruptedException stopped) {
            throw RegistryFailure.stopped();
        }
    }

    private Answer<S> kept(SchemaId id, Answer<S> found) {
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

    private static <S> Answer<S> unasked(SchemaId id) {
        return new Answer<>(null, "the schema registry was not asked for " + id + ": it had none of "
                + MOST_ABSENT + " others within " + ABSENT_NANOS / 1_000_000_000 + " s");
    }
}
