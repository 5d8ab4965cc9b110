package rivermouth.avro;

/** A record that is refused: why, at which field, and a sentence that contains nothing of the record. */
final class Refused extends RuntimeException {
    private static final long serialVersionUID = 1;

    final String reason;
    private String path = "";

    Refused(String reason, String message) {
        // Thousands of records may be refused: no stack traces.
        super(message, null, false, false);
        this.reason = reason;
    }

    /** The same, told by what holds the field. */
    Refused within(String name) {
        path = path.isEmpty() || path.startsWith("[") ? name + path : name + "." + path;
        return this;
    }

    /** The same of the value itself, with a further sentence. */
    Refused because(String more) {
        return new Refused(reason, getMessage() + "; " + more);
    }

    /** Dotted path of the field; null for the record itself. */
    String field() {
        return path.isEmpty() ? null : path;
    }

    static Refused malformed(String message) {
        return new Refused("INVALID_AVRO", message);
    }

    static Refused truncated() {
        return new Refused("TRUNCATED", "the value ends before what its schema announces");
    }

    static Refused unfit(String message) {
        return new Refused("FIELD_TYPE", message);
    }

    static Refused mismatch(String message) {
        return new Refused("SCHEMA_MISMATCH", message);
    }
}
