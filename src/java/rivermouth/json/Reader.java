package rivermouth.json;

/** Reads a value that begins where the document stands, as Spark has it inside. */
interface Reader {
    /**
     * The value, which is no null; the document stands behind it afterwards.
     *
     * @throws NotCertain it may not be of the reader's type
     */
    Object read(Document in);
}
