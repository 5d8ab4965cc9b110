package rivermouth.avro;

/** The schema registry does not give what it should; no record is at fault. */
public final class RegistryFailure extends RuntimeException {
    private static final long serialVersionUID = 1;

    RegistryFailure(String message) {
        super(message);
    }

    /** Of a thread that was interrupted, and is still. */
    static RegistryFailure stopped() {
        Thread.currentThread().interrupt();
        return new RegistryFailure("the task was stopped while it waited");
    }

    /** What is wrong lies with the question, or with Java: no record is at fault either. */
    static RegistryFailure unasked(Throwable error) {
        return new RegistryFailure("it cannot be asked (" + error.getClass().getSimpleName() + ")");
    }
}
