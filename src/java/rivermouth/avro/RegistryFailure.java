package rivermouth.avro;

/** The schema registry does not give what it should; no record is at fault. */
public final class RegistryFailure extends RuntimeException {
    private static final long serialVersionUID = 1;

    RegistryFailure(String message) {
        super(message);
    }
}
