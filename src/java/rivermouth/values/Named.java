package rivermouth.values;

import java.util.List;

/** Whether a value has one of the declared columns, and what is said of one that has none. */
final class Named {
    /** How many characters of a field's name are shown. */
    private static final int MOST = 100;

    private Named() {}

    /**
     * A value that has none of the declared columns, as {@code decoding/declared/named_fields.py} says it too.
     *
     * @param declared the names of the columns
     * @param there the names of the fields that the value has
     */
    static Refused none(List<String> declared, Iterable<String> there) {
        String text = "the value has none of the declared columns";
        for (String column : declared) {
            String told = spelling(column, there);
            if (told != null) {
                return new Refused("NO_DECLARED_FIELD", column, text + told);
            }
        }
        return new Refused("NO_DECLARED_FIELD", text);
    }

    /** What is said of a column whose name differs in case alone from a field that is there; null if there is none. */
    static String spelling(String column, Iterable<String> there) {
        for (String field : there) {
            if (field.equalsIgnoreCase(column) && !field.equals(column)) {
                return "; column " + shown(column) + " differs in case from field " + shown(field) + ": declare it as "
                        + shown(field);
            }
        }
        return null;
    }

    private static String shown(String name) {
        return name.codePointCount(0, name.length()) <= MOST
                ? name
                : name.substring(0, name.offsetByCodePoints(0, MOST)) + "...";
    }
}
