package rivermouth.values;

/** A value that is refused: why, at which field, and a sentence that contains nothing of the value. */
final class Refused extends RuntimeException {
    private static final long serialVersionUID = 1;

    final String reason;
    final String field;

    Refused(String reason, String field, String message) {
        // Thousands of values may be refused: no stack traces.
        super(message, null, false, false);
        this.reason = reason;
        this.field = field;
    }

    Refused(String reason, String message) {
        this(reason, null, message);
    }

    /** Of a text that breaks the rules by which lines are taken apart. */
    static Refused line(String field, String message) {
        return new Refused("INVALID_LINE", field, message);
    }
}
