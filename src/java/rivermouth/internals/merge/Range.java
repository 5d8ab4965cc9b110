package rivermouth.internals.merge;

/**
 * The least and the greatest value of a column.
 *
 * @param column its name
 * @param least a whole number, or a text
 * @param greatest as {@code least}
 */
public record Range(String column, Object least, Object greatest) {}
