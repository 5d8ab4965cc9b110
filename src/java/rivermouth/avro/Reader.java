package rivermouth.avro;

/** Reads one value of a writer's schema as what the table holds. */
@FunctionalInterface
interface Reader {
    /**
     * The value in Spark's own form; null where the record says so.
     *
     * @throws Refused it is not what the schema says, or the column cannot hold it
     */
    Object read(Input in);
}
