package rivermouth.json;

/** A document is left to Spark's parser, which decides whether it is sound and fits. */
final class Unsure extends RuntimeException {
    private static final long serialVersionUID = 1;
    /** One for all: it says nothing, so it needs no place of its own. */
    static final Unsure IT_IS = new Unsure();

    private Unsure() {
        super(null, null, false, false);
    }
}
