package rivermouth.json;

/** A document is left to Spark's parser, which decides whether it is sound and fits. */
final class NotCertain extends RuntimeException {
    private static final long serialVersionUID = 1;
    /** One for all: it says nothing, so it needs no place of its own. */
    static final NotCertain IT_IS = new NotCertain();

    private NotCertain() {
        super(null, null, false, false);
    }
}
