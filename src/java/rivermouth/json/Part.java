package rivermouth.json;

/** A value in a document: its JSON pointer (https://datatracker.ietf.org/doc/html/rfc6901), and where its bytes are. */
final class Part {
    final String pointer;
    final int begin;
    final int end;

    Part(String pointer, int begin, int end) {
        this.pointer = pointer;
        this.begin = begin;
        this.end = end;
    }

    /** Appends a field's name, or the number of an item, to a pointer. */
    static void step(StringBuilder pointer, String name) {
        pointer.append('/').append(name.replace("~", "~0").replace("/", "~1"));
    }
}
