package rivermouth.json;

/** Reads the value that comes next in the document, as Spark has it inside. */
interface Reader {
    /**
     * The value, which is no null; the document is behind it afterwards.
     *
     * @throws NotCertain it may not be of the reader's type
     */
    Object read(Document in);
}
